use async_trait::async_trait;

use super::{CallId, Page, PageRequest, StoreError, Timestamp};

/// What somebody said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The call may run, once.
    Approved,
    /// It may not.
    Denied,
}

impl Verdict {
    /// The verdict as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
        }
    }

    /// The verdict of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Approved, Self::Denied]
            .into_iter()
            .find(|verdict| verdict.as_str() == name)
    }
}

/// Who said what, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// What was said.
    pub verdict: Verdict,
    /// By whom.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, in the decider's words.
    pub reason: Option<String>,
}

/// A call that needs somebody's approval (requirements G1 to G3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// Its own id.
    pub id: String,
    /// The call that waits, or waited.
    pub call: Option<CallId>,
    /// The tool that would run.
    pub tool: String,
    /// The id of its server.
    pub server: Option<String>,
    /// What the decision is bound to: the id of the executor's
    /// [`ApprovalRequest`](crate::executor::ApprovalRequest), a hash of tool, server, exact
    /// arguments and user.
    pub arguments_hash: String,
    /// The arguments as JSON, for whoever decides.
    pub arguments: String,
    /// On whose behalf.
    pub user: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// From when on no decision counts.
    pub expires_at: Timestamp,
    /// The decision, once there is one.
    pub decision: Option<ApprovalDecision>,
    /// When the approved call ran.
    pub used_at: Option<Timestamp>,
}

impl ApprovalRecord {
    /// Whether what it says counts at this moment: it has not expired, and no call has used it.
    #[must_use]
    pub fn is_live(&self, at: Timestamp) -> bool {
        self.used_at.is_none() && self.expires_at > at
    }

    /// What has become of it by this moment: `pending`, `approved`, `denied`, `used` or
    /// `expired`.
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

/// Which approvals somebody wants to see; what is none matches every approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only those that wait for a decision, and are not expired at this moment.
    pub open_at: Option<Timestamp>,
    /// Only those with no decision that have expired by this moment.
    pub expired_at: Option<Timestamp>,
    /// Only those that were decided so.
    pub verdict: Option<Verdict>,
    /// Of this tool.
    pub tool: Option<String>,
    /// On whose behalf.
    pub user: Option<String>,
    /// Only those with this hash.
    pub arguments_hash: Option<String>,
}

/// How many approvals wait for a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenApprovals {
    /// Everybody's.
    pub all: u64,
    /// One user's; those without a user count as one.
    pub of_user: u64,
}

/// Keeps approvals, and decides races between those who decide.
#[async_trait]
pub trait ApprovalStore: Send + Sync {
    /// Adds an approval that waits for its decision.
    ///
    /// # Errors
    /// `conflict` when there is one of that id.
    async fn insert_approval(&self, approval: &ApprovalRecord) -> Result<(), StoreError>;

    /// The approval of that id.
    ///
    /// # Errors
    /// Errors of the store.
    async fn approval(&self, id: &str) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Approvals, the newest first.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: &PageRequest,
    ) -> Result<Page<ApprovalRecord>, StoreError>;

    /// How many wait for a decision at this moment, and how many of them on behalf of this user.
    ///
    /// # Errors
    /// Errors of the store.
    async fn count_open_approvals(
        &self,
        user: Option<&str>,
        at: Timestamp,
    ) -> Result<OpenApprovals, StoreError>;

    /// Stores the decision; the first one counts.
    ///
    /// # Errors
    /// `not_found`; `conflict` when somebody has decided before, or it has expired.
    async fn decide_approval(
        &self,
        id: &str,
        decision: &ApprovalDecision,
    ) -> Result<(), StoreError>;

    /// Uses up an approval, so that it lets one call through and no second.
    ///
    /// # Errors
    /// `not_found`; `conflict` when it is not approved, has expired, or has been used.
    async fn use_approval(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Removes what expired before this moment; how many.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_expired_approvals(&self, before: Timestamp) -> Result<u64, StoreError>;
}
