use std::time::Duration;

use super::{CallId, Timestamp};
use crate::tool::{ErrorCode, QuotaAccount, ToolResult};

/// The status of a recorded call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallStatus {
    /// The call has arrived, or waits for an approval or for a permit.
    Pending,
    /// The tool is running.
    Running,
    /// The call succeeded.
    Success,
    /// The call failed.
    Error,
    /// The caller cancelled the call.
    Cancelled,
    /// The process ended before the call did. Whether the tool completed its work is unknown.
    Interrupted,
    /// A person or a policy denied the call.
    Denied,
}

impl CallStatus {
    /// All statuses.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Error,
        Self::Cancelled,
        Self::Interrupted,
        Self::Denied,
    ];

    /// Returns the status's name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Denied => "denied",
        }
    }

    /// Returns the status with this JSON name.
    ///
    /// ```
    /// use pillion_core::store::CallStatus;
    /// assert_eq!(CallStatus::from_name("denied"), Some(CallStatus::Denied));
    /// assert_eq!(CallStatus::from_name("gone"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Returns the status of a call with this result; `Pending` if the call needs an approval.
    #[must_use]
    pub fn from_result(result: &ToolResult) -> Self {
        match result.error_code {
            _ if result.success => Self::Success,
            Some(ErrorCode::Denied) => Self::Denied,
            Some(ErrorCode::Cancelled) => Self::Cancelled,
            Some(ErrorCode::ApprovalRequired) => Self::Pending,
            _ => Self::Error,
        }
    }

    /// Returns whether the call has ended; the status then no longer changes.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// Identifies the process that records a call, so that the next process can find unfinished calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessRun {
    /// Identifies the sidecar across restarts, for example by its host and socket. Unique among the
    /// sidecars that share a store.
    pub owner: String,
    /// Identifies one run of the sidecar; differs for every start.
    pub run_id: String,
}

/// A recorded tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRecord {
    /// The ID of the call, which contains the time at which the call arrived.
    pub id: CallId,
    /// The process that runs the call.
    pub process: ProcessRun,
    /// The name of the tool's MCP server; `None` for native tools.
    pub server: Option<String>,
    /// The name of the called tool.
    pub tool: String,
    /// The user on whose behalf the call runs.
    pub user: Option<String>,
    /// Whether the principal may act for the user. If not, the principal only claims to act for the
    /// user.
    pub user_is_verified: bool,
    /// The authenticated principal that made the call, if the interface authenticates its callers.
    pub principal: Option<String>,
    /// The interface or program that the call came through.
    pub caller: Option<String>,
    /// The arguments as JSON, redacted.
    pub arguments: String,
    /// The redacted arguments after their repair, as JSON; `None` unless a model's arguments had to
    /// be repaired.
    pub repaired_arguments: Option<String>,
    /// The redacted arguments with which the tool ran, as JSON; `None` unless an approver changed
    /// the arguments.
    pub approved_arguments: Option<String>,
    /// The status of the call at the time of this record.
    pub status: CallStatus,
    /// The time at which the call ended; `None` for a call that has not ended.
    pub completed_at: Option<Timestamp>,
    /// How long the tool ran; `None` if the tool has not run or is still running.
    pub duration: Option<Duration>,
    /// The result as JSON, redacted.
    pub result: Option<String>,
    /// The error message of a failed call.
    pub error: Option<String>,
    /// The error code of a failed call.
    pub error_code: Option<ErrorCode>,
    /// The ID of the call that made this call, if the call is nested.
    pub parent: Option<CallId>,
}

/// The part of a call record that a restarted sidecar needs to restore the counts of rate limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitRecord {
    /// The ID of the call.
    pub id: CallId,
    /// The ID of the process that ran the call.
    pub run_id: String,
    /// The name of the tool's MCP server; `None` for native tools.
    pub server: Option<String>,
    /// The name of the called tool.
    pub tool: String,
    /// The account whose limits the call counts toward.
    pub account: QuotaAccount,
    /// The time at which the tool started, or at which the call arrived if the start of the tool is
    /// not known.
    pub began_at: Timestamp,
}

impl ToolCallRecord {
    /// Creates the record of a call that has just arrived, with a new ID.
    pub fn begin(process: ProcessRun, tool: impl Into<String>, arguments: String) -> Self {
        Self {
            id: CallId::new(),
            process,
            server: None,
            tool: tool.into(),
            user: None,
            user_is_verified: false,
            principal: None,
            caller: None,
            arguments,
            repaired_arguments: None,
            approved_arguments: None,
            status: CallStatus::Running,
            completed_at: None,
            duration: None,
            result: None,
            error: None,
            error_code: None,
            parent: None,
        }
    }

    /// Returns the user if the user is verified.
    #[must_use]
    pub fn verified_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|_| self.user_is_verified)
    }

    /// Returns when the call arrived.
    #[must_use]
    pub fn arrived_at(&self) -> Timestamp {
        self.id.creation_time()
    }
}
