use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::registry::{RegisteredTool, RegistryError, SchemaCheckTime};
use pillion_core::tool::{DefinitionError, ToolDefinition, ToolName};
use pillion_mcp_client::{EntryError, EntryKind};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use super::tool::WorkerTool;
use crate::calling_client::listed_tool::ListedTool;

/// Maximum number of tools of one worker.
const MAX_TOOLS: usize = 1_000;

/// Maximum cooldown of a tool.
const MAX_COOLDOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// The parameters with which a worker registers: its name and its tools.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub struct Registration {
    /// The worker's name in lists and logs, 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// The worker's tools, each an entry of MCP's `tools/list`, optionally with `category`,
    /// `requiresConfirmation`, `cooldownSeconds`, `strict` and `timeoutMs`.
    #[schema(min_items = 1, max_items = 1000)]
    tools: Vec<Map<String, Value>>,
}

/// Why a registration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The name is too short or too long.
    #[error("The worker's name must have 1 to 100 characters, but has {length}")]
    NameLength {
        /// The length of the name, in characters.
        length: usize,
    },
    /// The worker offers no tools or too many.
    #[error("A worker must offer 1 to {MAX_TOOLS} tools, but offers {count}")]
    ToolCount {
        /// The number of offered tools.
        count: usize,
    },
    /// The definition of a tool cannot be parsed.
    #[error("tools[{index}] is invalid: {source}")]
    Unreadable {
        /// The tool's index in `tools`.
        index: usize,
        /// Why the definition cannot be parsed.
        #[source]
        source: serde_json::Error,
    },
    /// A tool's cooldown is out of range.
    #[error("tools[{index}].cooldownSeconds must be from 0 to 86400")]
    Cooldown {
        /// The tool's index in `tools`.
        index: usize,
    },
    /// A tool's definition is invalid.
    #[error("tools[{index}]: {source}")]
    Definition {
        /// The tool's index in `tools`.
        index: usize,
        /// Why the definition is invalid.
        #[source]
        source: DefinitionError,
    },
    /// A tool's MCP entry is invalid.
    #[error("tools[{index}]: {source}")]
    Entry {
        /// The tool's index in `tools`.
        index: usize,
        /// Why the entry is invalid.
        #[source]
        source: EntryError,
    },
    /// A tool's input schema is invalid.
    #[error("{0}")]
    Schema(#[source] RegistryError),
    /// Two tools have the same name.
    #[error("The worker offers two tools with the name '{0}'")]
    DuplicateName(ToolName),
}

/// The members of a tool that the sidecar uses. MCP clients get the other members unchanged.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolEntry {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Option<Value>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    requires_confirmation: bool,
    #[serde(default)]
    cooldown_seconds: Option<f64>,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// The members of a tool that only the sidecar uses and MCP clients do not get.
const SIDECAR_MEMBERS: [&str; 5] = [
    "category",
    "requiresConfirmation",
    "cooldownSeconds",
    "strict",
    "timeoutMs",
];

/// A validated registration, whose tools can all be registered.
#[derive(Debug)]
pub struct CheckedRegistration {
    pub(super) name: String,
    pub(super) tools: Vec<CheckedWorkerTool>,
}

/// A tool of a worker with its validated schema.
#[derive(Debug, Clone)]
pub(super) struct CheckedWorkerTool {
    pub(super) tool: Arc<WorkerTool>,
    pub(super) registered_tool: Arc<RegisteredTool>,
}

impl Registration {
    /// Checks that all tools can be registered. Compiling the schemas may take seconds, so call
    /// this function through [`compute`](pillion_core::compute).
    ///
    /// # Errors
    /// [`RegistrationError`]: the worker's name, the number of tools, or a tool is invalid.
    pub fn check(self) -> Result<CheckedRegistration, RegistrationError> {
        let length = self.name.chars().count();
        if !(1..=100).contains(&length) {
            return Err(RegistrationError::NameLength { length });
        }
        let count = self.tools.len();
        if !(1..=MAX_TOOLS).contains(&count) {
            return Err(RegistrationError::ToolCount { count });
        }
        let check_time = SchemaCheckTime::start();
        let mut names = HashSet::new();
        let mut tools = Vec::new();
        for (index, entry) in self.tools.into_iter().enumerate() {
            let tool = Arc::new(read_tool(index, entry)?);
            if !names.insert(tool.name().clone()) {
                return Err(RegistrationError::DuplicateName(tool.name().clone()));
            }
            let result = RegisteredTool::for_list(Arc::<WorkerTool>::clone(&tool), check_time);
            let registered_tool = Arc::new(result.map_err(RegistrationError::Schema)?);
            tools.push(CheckedWorkerTool {
                tool,
                registered_tool,
            });
        }
        let name = self.name;
        Ok(CheckedRegistration { name, tools })
    }
}

fn read_tool(
    index: usize,
    mut members: Map<String, Value>,
) -> Result<WorkerTool, RegistrationError> {
    let entry = ToolEntry::deserialize(&Value::Object(members.clone()))
        .map_err(|source| RegistrationError::Unreadable { index, source })?;
    let mut builder = ToolDefinition::builder(entry.name, entry.description)
        .requires_confirmation(entry.requires_confirmation)
        .strict(entry.strict);
    if let Some(schema) = entry.input_schema {
        builder = builder.schema(schema);
    }
    if let Some(category) = entry.category {
        builder = builder.category(category);
    }
    if let Some(seconds) = entry.cooldown_seconds {
        let cooldown = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|cooldown| *cooldown <= MAX_COOLDOWN)
            .ok_or(RegistrationError::Cooldown { index })?;
        builder = builder.cooldown(cooldown);
    }
    let definition = builder
        .build()
        .map_err(|source| RegistrationError::Definition { index, source })?;
    let original_entry = members.clone();
    members.retain(|key, _| !SIDECAR_MEMBERS.contains(&key.as_str()));
    let to_error = |source| RegistrationError::Unreadable { index, source };
    let raw_entry = to_raw_value(&members).map_err(to_error)?;
    let checked_entry = EntryKind::Tool
        .check(&raw_entry)
        .map_err(|source| RegistrationError::Entry { index, source })?;
    let listed_tool = ListedTool::new(&checked_entry.entry).map_err(to_error)?;
    let timeout = entry.timeout_ms.map(Duration::from_millis);
    let tool = WorkerTool::new(definition, original_entry, listed_tool, timeout);
    Ok(tool)
}
