use async_trait::async_trait;

use super::{CallId, PageRequest, RecordPage, StoreError, Timestamp};
use crate::tool::QuotaAccount;

/// A decision on a call that needs approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The call may run, but only once.
    Approved,
    /// The call must not run.
    Denied,
}

impl Verdict {
    /// Returns the name of the decision in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
        }
    }

    /// Returns the decision with this JSON name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut verdicts = [Self::Approved, Self::Denied].into_iter();
        verdicts.find(|verdict| verdict.as_str() == name)
    }
}

/// A decision on an approval, with the decider and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// Whether the call may run.
    pub verdict: Verdict,
    /// The person or program that decided.
    pub decider: String,
    /// The time at which the decision was made.
    pub decided_at: Timestamp,
    /// The reason for the decision, if the decider gave one.
    pub reason: Option<String>,
    /// The arguments with which the call runs, as JSON, if the decider changed them. A redacted
    /// value that [`ApprovalRecord::arguments`] contains at the same location represents the call's
    /// original value.
    pub arguments: Option<String>,
}

/// The approval of a call: the request, and the decision once there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// The ID of the approval.
    pub id: String,
    /// The ID of the call that waits or waited for the approval; `None` if the call has no record
    /// in the call log.
    pub call: Option<CallId>,
    /// The name of the tool that the call wants to run.
    pub tool: String,
    /// The name of the tool's MCP server; `None` for native tools.
    pub server: Option<String>,
    /// The ID of the executor's [`ApprovalRequest`](crate::executor::ApprovalRequest). The decision
    /// is valid only for calls whose request has this ID.
    pub arguments_hash: String,
    /// The arguments as JSON, formatted for display to the approver.
    pub arguments: String,
    /// The user on whose behalf the call runs.
    pub user: Option<String>,
    /// Whether the principal may act for the user. If not, the principal only claims to act for the
    /// user.
    pub user_is_verified: bool,
    /// The authenticated principal that makes the call.
    pub principal: Option<String>,
    /// The channel of the call.
    pub channel: Option<String>,
    /// The data that the tool gets from the caller besides the arguments, as JSON, formatted for
    /// display to the approver.
    pub forwarded: Option<String>,
    /// The time at which the approval was requested.
    pub created_at: Timestamp,
    /// The time at which the approval expires; a decision is valid until this time.
    pub expires_at: Timestamp,
    /// The decision, once there is one.
    pub decision: Option<ApprovalDecision>,
    /// The time at which a call used the approval; `None` if the approval is unused.
    pub used_at: Option<Timestamp>,
}

impl ApprovalRecord {
    /// Returns the user if the user is verified.
    #[must_use]
    pub fn verified_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|_| self.user_is_verified)
    }

    /// Returns whether the approval is valid at this time: not expired, and not used by a call.
    #[must_use]
    pub fn is_valid(&self, at: Timestamp) -> bool {
        self.used_at.is_none() && self.expires_at > at
    }

    /// Returns the status at this time: `pending`, `approved`, `denied`, `used` or `expired`.
    #[must_use]
    pub fn status(&self, at: Timestamp) -> &'static str {
        let verdict = self.decision.as_ref().map(|decision| decision.verdict);
        match verdict {
            _ if self.used_at.is_some() => "used",
            Some(Verdict::Denied) => "denied",
            _ if self.expires_at <= at => "expired",
            Some(Verdict::Approved) => "approved",
            None => "pending",
        }
    }
}

/// Selects approvals; `None` matches every approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only approvals that are undecided and not expired at this time.
    pub open_at: Option<Timestamp>,
    /// Only approvals that expired undecided before or at this time.
    pub expired_at: Option<Timestamp>,
    /// Only approvals with this decision.
    pub verdict: Option<Verdict>,
    /// Only approvals for this tool.
    pub tool: Option<String>,
    /// Only approvals for calls of this user.
    pub user: Option<String>,
    /// Only approvals for calls of verified users.
    pub only_verified: bool,
    /// Only approvals with this `arguments_hash`.
    pub arguments_hash: Option<String>,
}

/// The number of approvals that wait for a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenApprovals {
    /// Number of open approvals of all accounts.
    pub total: u64,
    /// Number of open approvals of one account.
    pub account_total: u64,
}

/// Stores approvals. Of concurrent decisions on one approval, exactly one succeeds.
#[async_trait]
pub trait ApprovalStore: Send + Sync {
    /// Adds an undecided approval.
    ///
    /// # Errors
    /// `conflict` if an approval with this ID exists.
    async fn insert_approval(&self, approval: &ApprovalRecord) -> Result<(), StoreError>;

    /// Returns the approval with this ID.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_approval(&self, id: &str) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Returns approvals, newest first.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: &PageRequest,
    ) -> Result<RecordPage<ApprovalRecord>, StoreError>;

    /// Counts the approvals that wait for a decision at this time, in total and for this
    /// account.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn count_open_approvals(
        &self,
        account: &QuotaAccount,
        at: Timestamp,
    ) -> Result<OpenApprovals, StoreError>;

    /// Stores a decision. Only the first decision on an approval succeeds.
    ///
    /// # Errors
    /// `not_found` if there is no such approval; `conflict` if the approval is already decided or
    /// has expired.
    async fn decide_approval(
        &self,
        id: &str,
        decision: &ApprovalDecision,
    ) -> Result<(), StoreError>;

    /// Marks an approval as used. Each approval admits only one call.
    ///
    /// # Errors
    /// `not_found` if there is no such approval; `conflict` if the approval is not approved, has
    /// expired, or is already used.
    async fn use_approval(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Removes the approvals that expired before this time, and returns their number.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_expired_approvals(&self, before: Timestamp) -> Result<u64, StoreError>;
}
