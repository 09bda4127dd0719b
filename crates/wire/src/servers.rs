use serde::{Deserialize, Serialize};

/// An MCP server as the sidecar shows it (requirements F1, F3). Credentials are never part
/// of it. Times are RFC 3339, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerEntry {
    /// Its id: a UUID that never changes.
    pub id: String,
    /// Its name, which no other server has. Calls in the log go by it.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `file` for one of the configuration file, which nobody changes here, else `store`.
    pub origin: String,
    /// How it is spoken to; `auto` finds out.
    pub transport: String,
    /// Whether a connection starts with `initialize`: `auto` or `never`.
    #[serde(default)]
    pub handshake: String,
    /// The revision of MCP that the handshake offers; absent for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Where it is, without its query; absent for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The program that it is, without its arguments; absent for one behind a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The credential of the server, without its secrets.
    pub authentication: ServerAuthentication,
    /// The names of the headers that every request has besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// How long one operation may take, in milliseconds.
    pub timeout: u64,
    /// How often it is asked again at once when it does not list its tools.
    pub retry_attempts: u8,
    /// Whether it is used.
    pub enabled: bool,
    /// What stands before the names of its tools.
    pub tool_prefix: String,
    /// Whether calls of its tools need approval: `auto`, `trusted-only` or `always-ask`; absent
    /// where `[approvals]` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<String>,
    /// What becomes of its tools that change: `off`, `warn` or `block`; absent where `mcp.pin`
    /// says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// How many calls of all its tools together one user may make, beside the limit of each;
    /// absent for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<ServerRateLimit>,
    /// Maximum number of concurrent calls of the server's tools; absent if
    /// `executor.max_concurrent` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<usize>,
    /// Whose credential its calls go out with: `shared`, `per_user` or `user_or_shared`.
    #[serde(default)]
    pub credential: String,
    /// `disconnected`, `connecting`, `connected` or `error`.
    pub status: String,
    /// Why, where the status is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its tools that are offered.
    pub tool_count: usize,
    /// The calls of those since the sidecar started.
    pub calls: ServerCalls,
    /// When it last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_connected_at: Option<String>,
    /// When it was added; absent for one of the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it was changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// The credential of a server as in the request that adds a server, without its secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerAuthentication {
    /// The type: `none`, `bearer`, `api-key`, `basic`, `oauth`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// At most so many calls in any minute, hour and day (C7). An absent number is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerRateLimit {
    /// Calls in any 60 seconds.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_i64, format = Int64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u32>,
    /// Calls in any 60 minutes.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_i64, format = Int64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<u32>,
    /// Calls in any 24 hours.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_i64, format = Int64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<u32>,
}

/// Calls of a server's tools that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerCalls {
    /// All of them.
    pub total: u64,
    /// Those that failed.
    pub failed: u64,
}

/// The answer of `GET /api/v1/servers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerList {
    /// Always true.
    pub success: bool,
    /// The servers of the configuration file in its order, then the others by name.
    pub servers: Vec<ServerEntry>,
    /// How many there are.
    pub total: usize,
}

/// The answer of whatever shows, adds or changes one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerAnswer {
    /// Always true.
    pub success: bool,
    /// The server, as it is now.
    pub server: ServerEntry,
}

/// The answer where a server was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerRemoved {
    /// Always true.
    pub success: bool,
    /// The id that it had.
    pub removed: String,
}

/// How a server answered when it was asked for its tools for the sake of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerTrial {
    /// Whether the server could be asked at all: true also when it then failed.
    pub success: bool,
    /// Whether it listed its tools.
    pub reachable: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it calls itself, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The names of its tools, as it has them.
    pub tools: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The body of what adds a server (F1): `url` and what else is needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerInput {
    /// Its name, 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `auto` (the default), `streamable_http`, `legacy_sse`, `post_sse`, `get_sse`, `http` or
    /// `websocket`; `sse` is taken for `legacy_sse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Whether a connection starts with `initialize`: `auto` (the default: if the server knows it) or
    /// `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<String>,
    /// The revision of MCP that the handshake offers, such as `2025-06-18`; the newest unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// More headers for every request. Kept encrypted, shown nowhere.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<serde_json::Value>,
    /// `{"type": "none"}`, `{"type": "bearer", "token"}`, `{"type": "api-key", "key",
    /// "header"}`, `{"type": "basic", "username", "password"}` or `{"type": "oauth", ...}`.
    /// Kept encrypted, shown nowhere.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<serde_json::Value>,
    /// How long one operation may take, in milliseconds; 30,000 unless given.
    #[cfg_attr(feature = "openapi", schema(minimum = 1000, maximum = 300_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// How often it is asked again at once when it does not list its tools; 3 unless given.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 5))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_attempts: Option<u8>,
    /// Whether it is used; true unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// What stands before the names of its tools; its name and `_` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_prefix: Option<String>,
    /// Whether calls of its tools need approval: `auto` (also `never`), `trusted-only` or
    /// `always-ask` (also `always` and `prompt`); what `[approvals]` says unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<String>,
    /// What becomes of its tools that change: `off`, `warn` or `block`; what `mcp.pin` says
    /// unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// How many calls of all its tools together one user may make, beside the limit of each; any
    /// number unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<ServerRateLimit>,
    /// Maximum number of concurrent calls of the server's tools; `executor.max_concurrent` if
    /// absent.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<usize>,
    /// Whose credential its calls go out with: `shared` (its own, the default), `per_user` (that
    /// of the user on whose behalf the call is made), or `user_or_shared` (the user's where there
    /// is one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// That a user has a credential for a server; what it is nobody is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserCredentialEntry {
    /// Whose it is.
    pub user: String,
    /// Its kind: `bearer`, `api-key`, `basic` or `oauth`.
    pub authentication: String,
    /// When it was given.
    pub set_at: String,
}

/// The answer of `GET /api/v1/servers/{id}/credentials`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCredentialList {
    /// Always true.
    pub success: bool,
    /// By the user's name.
    pub credentials: Vec<UserCredentialEntry>,
    /// How many there are.
    pub total: usize,
}

/// The answer where a user was given a credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCredentialAnswer {
    /// Always true.
    pub success: bool,
    /// What may be known of it.
    pub credential: UserCredentialEntry,
}

/// The body of what gives a user a credential.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCredentialInput {
    /// `{"type": "bearer", "token"}`, `{"type": "api-key", "key", "header"}` or
    /// `{"type": "basic", "username", "password"}`. Kept encrypted, shown nowhere.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub authentication: serde_json::Value,
}
