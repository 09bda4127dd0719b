use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Response body of `GET /api/v1/tools/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolList {
    /// Always true.
    pub success: bool,
    /// The tools, in the order of registration.
    pub tools: Vec<ToolSummary>,
    /// The number of tools.
    pub total: usize,
    /// The MCP servers that could not list their tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
    /// The invalid files in the folder of sandboxed (WebAssembly) tools, and the listed tools whose
    /// calls are rejected because of their schemas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_tools: Vec<InvalidTool>,
}

/// A tool with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolSummary {
    /// The tool's name.
    pub name: String,
    /// The tool's description for the model.
    pub description: String,
    /// The tool's parameters.
    pub parameters: Vec<Parameter>,
    /// The tool's category.
    #[serde(default)]
    pub category: String,
    /// The label of the tool's MCP server; absent for a local tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// The URL of the tool's MCP server without the query, or `stdio:` and the program's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_url: Option<String>,
    /// The tool's name on its MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_tool: Option<String>,
    /// Warnings about hidden text in the definition of an MCP server's tool, one per field. Hidden
    /// text is invisible characters, comments or terminal escapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Response body of `GET /api/v1/tools/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolResponse {
    /// Always true.
    pub success: bool,
    /// The tool.
    pub tool: ToolSummary,
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parameter {
    /// The parameter's name in the arguments object.
    pub name: String,
    /// The parameter's JSON type in capitals, such as `STRING`; `ANY` if the schema has no type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The parameter's description; empty if the schema has none.
    #[serde(default)]
    pub description: String,
    /// Whether a call without the parameter is rejected.
    pub required: bool,
    /// The parameter's default value; null if there is none.
    #[serde(default)]
    pub default: Value,
    /// The allowed values; absent if any value is allowed.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Value>,
}

/// An MCP server that could not list its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnavailableServer {
    /// The server's label in the configuration.
    pub label: String,
    /// The reason why the server is unavailable.
    pub error: String,
}

/// An invalid file in the folder of sandboxed (WebAssembly) tools, or a tool whose schema cannot be
/// used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvalidTool {
    /// The tool's name; null if the error concerns the folder itself.
    pub tool: Option<String>,
    /// The error code, such as `not_granted`, `core_module` or `schema_too_large`.
    pub code: String,
    /// The error message.
    pub error: String,
    /// Whether the previous version of the tool is still offered.
    pub previous_version_offered: bool,
}

/// Response body of `GET /api/v1/tools/schemas`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchemaList {
    /// Always true.
    pub success: bool,
    /// The schemas, each of the form `{"type": "function", "function": {"name", "description",
    /// "parameters"}}`.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub schemas: Vec<Value>,
    /// The number of schemas.
    pub total: usize,
    /// The MCP servers that could not list their tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
}
