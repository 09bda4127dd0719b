use serde::{Deserialize, Serialize};

/// An MCP server of the sidecar. Secrets are never included. Times are RFC 3339, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerEntry {
    /// The server's ID: a UUID that never changes.
    pub id: String,
    /// The server's name, unique among all servers. The call log names the server by this name.
    pub name: String,
    /// The server's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The source of the server: `file` if the server comes from the configuration file, where the
    /// API cannot change it; else `store`.
    pub origin: String,
    /// The transport; `auto` detects the transport.
    pub transport: String,
    /// Whether a connection starts with the handshake `initialize`: `auto` (the connection starts
    /// with the handshake if the server and the transport support it) or `never`.
    #[serde(default)]
    pub handshake: String,
    /// The MCP protocol revision that the handshake offers; absent for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The server's URL without the query; absent for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The program without its arguments; absent for a server with a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The server's credential, without secrets.
    pub authentication: ServerAuthentication,
    /// The names of the additional headers of every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The timeout of one operation, in milliseconds.
    pub timeout: u64,
    /// The number of immediate retries if the server fails to list its tools.
    pub retry_attempts: u8,
    /// Whether the server is enabled.
    pub enabled: bool,
    /// The prefix of the server's tool names.
    pub tool_prefix: String,
    /// Whether calls of the server's tools need approval: `auto`, `trusted-only` or `always-ask`;
    /// absent if the configuration section `[approvals]` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<String>,
    /// How to treat a tool whose definition changes: `off`, `warn` or `block`; absent if `mcp.pin`
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// How to treat tools that the server adds later: `accept` or `block`; absent if
    /// `mcp.new_tools` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_tools: Option<String>,
    /// The rate limit per user for all tools of the server together, in addition to the limit of
    /// each tool; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<ServerRateLimit>,
    /// Maximum number of concurrent calls of the server's tools; absent if
    /// `executor.max_concurrent` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<usize>,
    /// The credential that calls use: `shared` (the server's), `per_user` (the user's) or
    /// `user_or_shared` (the user's if there is one).
    #[serde(default)]
    pub credential: String,
    /// The status of the connection: `disconnected`, `connecting`, `connected` or `error`.
    pub status: String,
    /// The error message if `status` is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of tools that the sidecar offers from the server.
    pub tool_count: usize,
    /// The calls of the server's tools since the sidecar started.
    pub calls: ServerCalls,
    /// The time of the server's last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_connected_at: Option<String>,
    /// The time at which the server was added; absent for a server of the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The time of the last change of the server's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// The credential of a server, without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerAuthentication {
    /// The credential's type: `none`, `bearer`, `api-key`, `basic` or `oauth`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Maximum numbers of calls per minute, hour and day. An absent number means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerRateLimit {
    /// Maximum number of calls in any 60 seconds.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_i64, format = Int64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u32>,
    /// Maximum number of calls in any 60 minutes.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_i64, format = Int64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<u32>,
    /// Maximum number of calls in any 24 hours.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_i64, format = Int64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<u32>,
}

/// Numbers of finished calls of a server's tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerCalls {
    /// The number of finished calls.
    pub total: u64,
    /// The number of failed calls.
    pub failed: u64,
}

/// Response body of `GET /api/v1/servers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerList {
    /// Always true.
    pub success: bool,
    /// The servers of the configuration file, in the order of the file, then the added servers, by
    /// name.
    pub servers: Vec<ServerEntry>,
    /// The number of servers.
    pub total: usize,
}

/// Response body of requests that read, add or change one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerResponse {
    /// Always true.
    pub success: bool,
    /// The server in its current state.
    pub server: ServerEntry,
}

/// Response body of a request that removed a server or a user's credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerRemoved {
    /// Always true.
    pub success: bool,
    /// The ID of the removed server, or the name of the user whose credential was removed.
    pub removed: String,
}

/// The result of a connection test of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerTrial {
    /// Whether the test ran; true even if the server failed the test.
    pub success: bool,
    /// Whether the server listed its tools.
    pub reachable: bool,
    /// The error message if the server is not reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The name and version that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The names of the tools on the server.
    pub tools: Vec<String>,
    /// The duration of the test, in milliseconds.
    pub duration_ms: u64,
}

/// A user's credential for a server, without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserCredentialEntry {
    /// The user's name.
    pub user: String,
    /// The credential's type: `bearer`, `api-key`, `basic` or `oauth`.
    pub authentication: String,
    /// The time at which the credential was set.
    pub set_at: String,
}

/// Response body of `GET /api/v1/servers/{id}/credentials`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCredentialList {
    /// Always true.
    pub success: bool,
    /// The credentials, ordered by the user's name.
    pub credentials: Vec<UserCredentialEntry>,
    /// The number of credentials.
    pub total: usize,
}

/// Response body of a request that set a user's credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCredentialResponse {
    /// Always true.
    pub success: bool,
    /// The user's credential, without secrets.
    pub credential: UserCredentialEntry,
}

/// Request body that sets a user's credential.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCredentialInput {
    /// The credential: `{"type": "bearer", "token"}`, `{"type": "api-key", "key", "header"}` or
    /// `{"type": "basic", "username", "password"}`. Stored encrypted and never returned.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub authentication: serde_json::Value,
}
