use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A tool call that requires approval. Times are RFC 3339, in UTC.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalEntry {
    /// The approval's ID: a UUID of version 7.
    pub id: String,
    /// The status of the approval: `pending`, `approved`, `denied`, `used` (the approved call has
    /// run) or `expired`.
    pub status: String,
    /// The tool that the call runs.
    pub tool: String,
    /// The label of the tool's MCP server; absent for a local tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The user on whose behalf the call runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether the principal may act on behalf of the user. If false, `user` is an unverified claim
    /// of the principal.
    #[serde(default)]
    pub user_is_verified: bool,
    /// The authenticated principal that makes the call: a token or a user of the sidecar's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The channel or conversation of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The arguments of the call, redacted by the rules of the call log; absent in a list if they
    /// are long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub arguments: Option<Box<RawValue>>,
    /// The data that the tool gets from the caller besides the arguments, such as further
    /// parameters of an MCP client's request; redacted like `arguments`. The decision applies only
    /// to a call with the same parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub forwarded: Option<Box<RawValue>>,
    /// The arguments with which the approved call runs, if the approver changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub approved_arguments: Option<Box<RawValue>>,
    /// SHA-256 of the tool, server, exact arguments, forwarded parameters, channel and user, and of
    /// the principal if the user is not verified. The decision applies only to a call with this
    /// hash.
    pub arguments_hash: String,
    /// The ID of the call's record in the call log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The time at which the approval was requested.
    pub created_at: String,
    /// The time at which the approval expires.
    pub expires_at: String,
    /// The principal that made the decision, followed by the user if the request named one; absent
    /// until the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The time of the decision; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// The reason that was given with the decision, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time at which the approved call ran; absent if the call has not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<String>,
}

/// Response body of `GET /api/v1/approvals`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalList {
    /// Always true.
    pub success: bool,
    /// The approvals, newest first.
    pub approvals: Vec<ApprovalEntry>,
    /// The value of `after` that requests the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Response body of `GET /api/v1/approvals/{id}` and of a decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalResponse {
    /// Always true.
    pub success: bool,
    /// The approval.
    pub approval: ApprovalEntry,
}

/// Request body that approves or denies a call. The body of a denial cannot have `arguments`. An
/// empty body is also valid.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct DecisionRequest {
    /// The reason for the decision, which is stored with the decision. The caller receives the
    /// reason of a denial as well. At most 1,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: Option<String>,
    /// The changed arguments with which an approved call runs: all arguments of the approval, with
    /// the approver's changes. Repeat a redacted value as shown to keep the original value; a
    /// redacted member cannot get another value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
}

/// Request body of a denial. An empty body is also valid.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct DenialRequest {
    /// The reason for the decision, which the caller also receives. At most 1,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: Option<String>,
}
