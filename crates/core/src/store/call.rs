use std::time::Duration;

use super::{CallId, Timestamp};
use crate::tool::ErrorCode;

/// How far a call has come (requirement F4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallStatus {
    /// It waits: for an approval, or for its turn.
    Pending,
    /// The tool runs.
    Running,
    /// It ended well.
    Success,
    /// It failed.
    Error,
    /// Its caller gave it up.
    Cancelled,
    /// The process ended before the call did; whether the tool did its work is not known.
    Interrupted,
    /// Somebody, or a policy, refused it.
    Denied,
}

impl CallStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Error,
        Self::Cancelled,
        Self::Interrupted,
        Self::Denied,
    ];

    /// The status as it stands in JSON.
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

    /// The status of that name.
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

    /// Whether the call has ended: nothing about it changes any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// Which process records a call, so that what it leaves behind is found by the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessLife {
    /// The same for every life of one sidecar, and another for every other sidecar with the
    /// same store: its host and socket, say.
    pub owner: String,
    /// Another for every start of it.
    pub life: String,
}

/// A call of a tool (requirement F4).
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRecord {
    /// Its id, which also says when the call came in.
    pub id: CallId,
    /// The process that runs it.
    pub process: ProcessLife,
    /// The id of the tool's server; none for a tool that needs none.
    pub server: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// On whose behalf.
    pub user: Option<String>,
    /// The principal whose limits the call counts toward, if the call names no verified user.
    pub principal: Option<String>,
    /// Which door or program the call came through.
    pub caller: Option<String>,
    /// The arguments as JSON, redacted by the rules that apply.
    pub arguments: String,
    /// How far the call has come.
    pub status: CallStatus,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// How long the tool ran.
    pub duration: Option<Duration>,
    /// The result as JSON, redacted by the rules that apply.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// The same as a code.
    pub error_code: Option<ErrorCode>,
    /// The call that made this one, in a chain of tools.
    pub parent: Option<CallId>,
}

/// What limits want to know of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallThatRan {
    /// Its id.
    pub id: CallId,
    /// The life of the process that ran it.
    pub life: String,
    /// The id of the tool's server; none for a tool that needs none.
    pub server: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// On whose behalf.
    pub user: Option<String>,
    /// The principal whose limits the call counts toward, if the call names no verified user.
    pub principal: Option<String>,
    /// When its tool began, or else when it came in.
    pub began_at: Timestamp,
}

impl ToolCallRecord {
    /// A call that has just come in, under a new id.
    pub fn begin(process: ProcessLife, tool: impl Into<String>, arguments: String) -> Self {
        Self {
            id: CallId::new(),
            process,
            server: None,
            tool: tool.into(),
            user: None,
            principal: None,
            caller: None,
            arguments,
            status: CallStatus::Running,
            completed_at: None,
            duration: None,
            result: None,
            error: None,
            error_code: None,
            parent: None,
        }
    }

    /// When the call came in.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.id.made_at()
    }
}
