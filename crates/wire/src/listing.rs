use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of `GET /api/v1/tools/` (requirement I1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolList {
    /// Always true.
    pub success: bool,
    /// The tools, in the order in which they were registered.
    pub tools: Vec<ToolSummary>,
    /// How many there are.
    pub total: usize,
    /// The MCP servers whose tools are missing from the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
    /// The files of the folder of sandboxed tools that are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty_tools: Vec<FaultyTool>,
}

/// One tool of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolSummary {
    /// The name to call it by.
    pub name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// The arguments it takes.
    pub parameters: Vec<Parameter>,
    /// The group it is listed under.
    #[serde(default)]
    pub category: String,
    /// The label of the MCP server that offers it; absent for all other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// The URL of that server without its query, or `stdio:` and the program's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_url: Option<String>,
    /// The name that the server itself has for the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_tool: Option<String>,
    /// What is hidden in the definition of an MCP server's tool, place by place: invisible
    /// characters, comments, escapes of terminals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The answer of `GET /api/v1/tools/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolAnswer {
    /// Always true.
    pub success: bool,
    /// The tool.
    pub tool: ToolSummary,
}

/// One argument of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parameter {
    /// Its key in the arguments object.
    pub name: String,
    /// Its JSON type in capitals, such as `STRING`; `ANY` where the schema names none.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it means; empty when the tool does not say.
    #[serde(default)]
    pub description: String,
    /// Whether a call without it is refused.
    pub required: bool,
    /// Its value in a call that leaves it out; null when there is none.
    #[serde(default)]
    pub default: Value,
    /// The only values allowed; absent when any is.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Value>,
}

/// An MCP server that could not be asked for its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnavailableServer {
    /// The server's label in the configuration.
    pub label: String,
    /// Why it could not be asked.
    pub error: String,
}

/// A file of the folder of sandboxed tools that is no tool as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FaultyTool {
    /// The tool that it would be; null for the folder itself.
    pub tool: Option<String>,
    /// What is wrong, as a word: `not_granted`, `core_module` and so on.
    pub code: String,
    /// What is wrong.
    pub error: String,
    /// Whether the tool is offered all the same, as its file was before.
    pub is_older_offered: bool,
}

/// The answer of `GET /api/v1/tools/schemas` (requirement I1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchemaList {
    /// Always true.
    pub success: bool,
    /// `{"type": "function", "function": {"name", "description", "parameters"}}` each (A3).
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub schemas: Vec<Value>,
    /// How many there are.
    pub total: usize,
    /// The MCP servers whose tools are missing from the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
}
