use std::sync::Arc;
use std::time::Duration;

use pillion_core::compute;
use pillion_core::job_channel::PeerTool;
use pillion_core::registry::{RegisteredTool, RegistryError, SchemaCheckTime, ToolRegistry};
use pillion_core::tool::{DefinitionError, InvalidToolName, ToolDefinition, ToolName, ToolOrigin};

use super::PhpExecutor;
use super::execution::{Execution, Handler};
use super::message::{Definitions, ServerEntry, ToolEntry};

/// Maximum number of tools of one executor. The same maximum applies to the number of aliases.
const MAX_TOOLS: usize = 10_000;

/// Maximum length of an alias, in bytes.
const MAX_ALIAS_BYTES: usize = 1024;

/// Maximum length of the label of a tool's MCP server, and of the server's URL, in bytes. The
/// length is limited, because each notification about a call names the server.
const MAX_SERVER_BYTES: usize = 2048;

/// Maximum size of the definitions of one executor, in bytes.
const MAX_DEFINITION_BYTES: usize = 64 * 1024 * 1024;

/// The reason why the tools of a PHP registry are rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum DefinitionsError {
    #[error("The executor has more than {MAX_TOOLS} tools, the maximum")]
    TooManyTools,
    #[error("The executor has more than {MAX_TOOLS} aliases, the maximum")]
    TooManyAliases,
    #[error("The alias of the tool '{tool}' has {bytes} bytes; the limit is {MAX_ALIAS_BYTES}")]
    AliasTooLong { tool: String, bytes: usize },
    #[error(
        "The definitions of the executor's tools have {bytes} bytes; the limit is \
         {MAX_DEFINITION_BYTES}"
    )]
    TooManyBytes { bytes: usize },
    #[error(
        "Tool '{tool}': the label and the URL of its server can each have at most {MAX_SERVER_BYTES} bytes"
    )]
    ServerTooLong { tool: String },
    #[error(
        "Tool '{tool}': cooldownSeconds must be a number of seconds, 0 or more; {seconds} given"
    )]
    InvalidCooldown { tool: String, seconds: f64 },
    #[error(transparent)]
    SidecarName(#[from] InvalidToolName),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl PhpExecutor {
    /// Applies changes to the PHP registry. After an error, some of the changes may have been
    /// applied; the PHP process sends all changes again.
    pub(super) async fn apply(&self, changes: Definitions) -> Result<(), DefinitionsError> {
        let registry = self.executor.registry();
        self.record_sizes(&changes)?;
        for name in &changes.removed {
            registry.unregister(name);
        }
        if changes.tools.len() > MAX_TOOLS {
            return Err(DefinitionsError::TooManyTools);
        }
        let tools = changes
            .tools
            .into_iter()
            .map(|entry| self.build_tool(entry))
            .collect::<Result<Vec<_>, _>>()?;
        let account = format!("executor {:?}", self.peer);
        // The size of the work is `usize::MAX`, so that the check always runs on another thread,
        // because checking even a small schema may take a long time.
        let bytes = if tools.is_empty() { 0 } else { usize::MAX };
        let check_tools = compute::run(&account, bytes, move || {
            let check_time = SchemaCheckTime::start();
            let check = |tool| RegisteredTool::for_list(Arc::new(tool), check_time);
            tools.into_iter().map(check).collect::<Result<Vec<_>, _>>()
        });
        for tool in check_tools.await? {
            registry.replace_checked(Arc::new(tool));
            if registry.len() > MAX_TOOLS {
                return Err(DefinitionsError::TooManyTools);
            }
        }
        for (alias, name) in &changes.aliases {
            if alias.len() > MAX_ALIAS_BYTES {
                let (tool, bytes) = (name.clone(), alias.len());
                return Err(DefinitionsError::AliasTooLong { tool, bytes });
            }
            add_alias(registry, alias, name)?;
        }
        if registry.alias_count() > MAX_TOOLS {
            return Err(DefinitionsError::TooManyAliases);
        }
        Ok(())
    }

    /// Checks and records the sizes that the definitions have after `changes`.
    fn record_sizes(&self, changes: &Definitions) -> Result<(), DefinitionsError> {
        let mut stored_sizes = self.definition_bytes.lock();
        let mut sizes = stored_sizes.clone();
        for name in &changes.removed {
            sizes.remove(name);
        }
        for entry in &changes.tools {
            let schema = entry.input_schema.to_string();
            let bytes = schema.len() + entry.description.len() + entry.category.len();
            sizes.insert(entry.name.clone(), bytes);
        }
        let total: usize = sizes.iter().map(|(name, bytes)| name.len() + bytes).sum();
        if total > MAX_DEFINITION_BYTES {
            return Err(DefinitionsError::TooManyBytes { bytes: total });
        }
        *stored_sizes = sizes;
        Ok(())
    }

    fn build_tool(&self, entry: ToolEntry) -> Result<PeerTool<Execution>, DefinitionsError> {
        let is_too_long =
            |server: &ServerEntry| server.label.len().max(server.url.len()) > MAX_SERVER_BYTES;
        if entry.server.as_ref().is_some_and(is_too_long) {
            return Err(DefinitionsError::ServerTooLong { tool: entry.name });
        }
        let origin = entry
            .server
            .map_or_else(ToolOrigin::default, |server| ToolOrigin::Mcp {
                server_label: server.label,
                server_url: server.url,
            });
        let sidecar_name = entry
            .sidecar_name
            .as_deref()
            .map(ToolName::new)
            .transpose()?;
        // The definition of a built-in tool comes from the sidecar, because the sidecar's
        // configuration may change the tool's defaults.
        let builtin_name = sidecar_name.as_ref().filter(|_| !origin.is_mcp());
        let app = self.current_app.app();
        let builtin = builtin_name.and_then(|name| app.registry().get(name.as_str()));
        let definition = match builtin {
            Some(builtin) => builtin.definition().clone(),
            None => {
                let seconds = entry.cooldown_seconds;
                let cooldown = Duration::try_from_secs_f64(seconds).map_err(|_| {
                    let tool = entry.name.clone();
                    DefinitionsError::InvalidCooldown { tool, seconds }
                })?;
                ToolDefinition::builder(entry.name, entry.description)
                    .schema(entry.input_schema)
                    .category(entry.category)
                    .strict(entry.strict)
                    .requires_confirmation(entry.requires_confirmation)
                    .cooldown(cooldown)
                    .build()?
            }
        };
        let handler = match sidecar_name {
            Some(name) => Handler::Sidecar(name),
            None => Handler::Php(entry.number),
        };
        let policy = entry.approval_policy;
        Ok(PeerTool::new(definition, origin, policy, handler))
    }
}

fn add_alias(registry: &ToolRegistry, alias: &str, name: &str) -> Result<(), RegistryError> {
    match registry.set_alias(alias, name) {
        // A tool takes precedence over an alias of the same name.
        Err(RegistryError::AliasIsTool(_)) => Ok(()),
        outcome => outcome,
    }
}
