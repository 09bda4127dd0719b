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

/// The registration of a worker.
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
    #[error("The worker's name must have 1 to 100 characters")]
    Name,
    /// The worker offers no tools or too many.
    #[error("A worker must offer 1 to {MAX_TOOLS} tools")]
    Count,
    /// A tool cannot be read.
    #[error("tools[{index}] is invalid: {source}")]
    Form {
        /// The tool's index in `tools`.
        index: usize,
        /// Why the tool cannot be read.
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
    Twice(ToolName),
}

/// The members of a tool that the sidecar uses. MCP clients get the other members unchanged.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
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

/// A registration whose tools were checked and can all be registered.
#[derive(Debug)]
pub struct CheckedRegistration {
    pub(super) name: String,
    pub(super) tools: Vec<CheckedWorkerTool>,
}

/// A tool of a worker with its checked schema.
#[derive(Debug, Clone)]
pub(super) struct CheckedWorkerTool {
    pub(super) tool: Arc<WorkerTool>,
    pub(super) registered: Arc<RegisteredTool>,
}

impl Registration {
    /// Checks that all tools can be registered. That may take long: use
    /// [`compute`](pillion_core::compute).
    ///
    /// # Errors
    /// [`RegistrationError`].
    pub fn check(self) -> Result<CheckedRegistration, RegistrationError> {
        if !(1..=100).contains(&self.name.chars().count()) {
            return Err(RegistrationError::Name);
        }
        if !(1..=MAX_TOOLS).contains(&self.tools.len()) {
            return Err(RegistrationError::Count);
        }
        let time = SchemaCheckTime::start();
        let mut seen = HashSet::new();
        let mut tools = Vec::new();
        for (index, entry) in self.tools.into_iter().enumerate() {
            let tool = Arc::new(read(index, entry)?);
            if !seen.insert(tool.name().clone()) {
                return Err(RegistrationError::Twice(tool.name().clone()));
            }
            let registered = RegisteredTool::for_list(Arc::<WorkerTool>::clone(&tool), time);
            let registered = Arc::new(registered.map_err(RegistrationError::Schema)?);
            tools.push(CheckedWorkerTool { tool, registered });
        }
        let name = self.name;
        Ok(CheckedRegistration { name, tools })
    }
}

fn read(index: usize, mut listed: Map<String, Value>) -> Result<WorkerTool, RegistrationError> {
    let entry = Entry::deserialize(&Value::Object(listed.clone()))
        .map_err(|source| RegistrationError::Form { index, source })?;
    let mut definition = ToolDefinition::builder(entry.name, entry.description)
        .requires_confirmation(entry.requires_confirmation)
        .strict(entry.strict);
    if let Some(schema) = entry.input_schema {
        definition = definition.schema(schema);
    }
    if let Some(category) = entry.category {
        definition = definition.category(category);
    }
    if let Some(seconds) = entry.cooldown_seconds {
        let cooldown = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|cooldown| *cooldown <= MAX_COOLDOWN)
            .ok_or(RegistrationError::Cooldown { index })?;
        definition = definition.cooldown(cooldown);
    }
    let definition = definition
        .build()
        .map_err(|source| RegistrationError::Definition { index, source })?;
    let sent = listed.clone();
    listed.retain(|key, _| !SIDECAR_MEMBERS.contains(&key.as_str()));
    let form = |source| RegistrationError::Form { index, source };
    let listed = to_raw_value(&listed).map_err(form)?;
    let checked = EntryKind::Tool
        .check(&listed)
        .map_err(|source| RegistrationError::Entry { index, source })?;
    let listed = ListedTool::new(&checked.entry).map_err(form)?;
    let timeout = entry.timeout_ms.map(Duration::from_millis);
    Ok(WorkerTool::new(definition, sent, listed, timeout))
}
