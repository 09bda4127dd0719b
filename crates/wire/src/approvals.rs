use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that waits, or waited, for somebody's approval (requirements G1 to G3). Times are
/// RFC 3339, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalEntry {
    /// Its id: a UUID of version 7.
    pub id: String,
    /// `pending`, `approved`, `denied`, `used` (the call has run) or `expired`.
    pub status: String,
    /// The tool that would run.
    pub tool: String,
    /// The label of its MCP server; absent for a tool that needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The arguments that it would run with, without what the rules of the call log take out;
    /// absent in a list where they are long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// SHA-256 of tool, server, user and exact arguments: what the decision is bound to.
    pub arguments_hash: String,
    /// The call in the call log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// When it was asked for.
    pub created_at: String,
    /// From when on it does not count any more.
    pub expires_at: String,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// Why, in the decider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<String>,
}

/// The answer of `GET /api/v1/approvals`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalList {
    /// Always true.
    pub success: bool,
    /// The approvals, the newest first.
    pub approvals: Vec<ApprovalEntry>,
    /// What to send as `after` for those that follow; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The answer of `GET /api/v1/approvals/{id}`, and of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalAnswer {
    /// Always true.
    pub success: bool,
    /// The approval.
    pub approval: ApprovalEntry,
}

/// What may stand in the body of a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct DecisionRequest {
    /// Why, for the record and, when it is a denial, for the caller; at most 1,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: Option<String>,
}
