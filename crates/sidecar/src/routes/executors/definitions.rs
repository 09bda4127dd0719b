use std::sync::Arc;
use std::time::Duration;

use pillion_core::compute;
use pillion_core::job_channel::PeerTool;
use pillion_core::registry::{RegisteredTool, RegistryError, SchemaCheckTime, ToolRegistry};
use pillion_core::tool::{DefinitionError, InvalidToolName, ToolDefinition, ToolName, ToolOrigin};

use super::PhpExecutor;
use super::execution::{Execution, Handler};
use super::message::{Definitions, ServerEntry, ToolEntry};

/// Maximum number of tools of one executor.
const MAX_TOOLS: usize = 10_000;

/// Maximum length of an alias, in bytes. An executor has at most as many aliases as tools.
const MAX_ALIAS_BYTES: usize = 1024;

/// Maximum length of the label and of the URL of a tool's server, in bytes. Each notification about
/// a call names the server.
const MAX_SERVER_BYTES: usize = 2048;

/// Maximum size of the definitions of one executor, in bytes.
const MAX_DEFINITION_BYTES: usize = 64 * 1024 * 1024;

/// Why the tools of a PHP registry are rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum DefinitionsError {
    #[error("An executor may have at most {MAX_TOOLS} tools")]
    Count,
    #[error("An executor may have at most {MAX_TOOLS} aliases of at most {MAX_ALIAS_BYTES} bytes")]
    Aliases,
    #[error("The definitions of an executor may have at most {MAX_DEFINITION_BYTES} bytes")]
    Bytes,
    #[error(
        "Tool '{tool}': the label and the URL of its server may have at most {MAX_SERVER_BYTES} bytes"
    )]
    Server { tool: String },
    #[error("Tool '{tool}': cooldownSeconds is not a duration")]
    Cooldown { tool: String },
    #[error(transparent)]
    SidecarName(#[from] InvalidToolName),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl PhpExecutor {
    /// Applies changes of the PHP registry. After an error some of the changes are applied; the PHP
    /// process sends all of them again.
    pub(super) async fn apply(&self, changes: Definitions) -> Result<(), DefinitionsError> {
        let registry = self.executor.registry();
        self.count_bytes(&changes)?;
        for name in &changes.removed {
            registry.unregister(name);
        }
        if changes.tools.len() > MAX_TOOLS {
            return Err(DefinitionsError::Count);
        }
        let tools = changes
            .tools
            .into_iter()
            .map(|entry| self.tool(entry))
            .collect::<Result<Vec<_>, _>>()?;
        let account = format!("executor {:?}", self.peer);
        // The size counts as large, because small schemas may also take long.
        let bytes = if tools.is_empty() { 0 } else { usize::MAX };
        let checked = compute::run(&account, bytes, move || {
            let time = SchemaCheckTime::start();
            let check = |tool| RegisteredTool::for_list(Arc::new(tool), time);
            tools.into_iter().map(check).collect::<Result<Vec<_>, _>>()
        });
        for tool in checked.await? {
            registry.replace_checked(Arc::new(tool));
            if registry.len() > MAX_TOOLS {
                return Err(DefinitionsError::Count);
            }
        }
        for (alias, name) in &changes.aliases {
            if alias.len() > MAX_ALIAS_BYTES {
                return Err(DefinitionsError::Aliases);
            }
            add_alias(registry, alias, name)?;
        }
        if registry.alias_count() > MAX_TOOLS {
            return Err(DefinitionsError::Aliases);
        }
        Ok(())
    }

    /// Counts the sizes of the definitions, including these changes.
    fn count_bytes(&self, changes: &Definitions) -> Result<(), DefinitionsError> {
        let mut counted = self.definition_bytes.lock();
        let mut sizes = counted.clone();
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
            return Err(DefinitionsError::Bytes);
        }
        *counted = sizes;
        Ok(())
    }

    fn tool(&self, entry: ToolEntry) -> Result<PeerTool<Execution>, DefinitionsError> {
        let is_too_long =
            |server: &ServerEntry| server.label.len().max(server.url.len()) > MAX_SERVER_BYTES;
        if entry.server.as_ref().is_some_and(is_too_long) {
            return Err(DefinitionsError::Server { tool: entry.name });
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
        // A built-in tool may have other defaults in the sidecar's configuration.
        let builtin = sidecar_name.as_ref().filter(|_| !origin.is_mcp());
        let app = self.current_app.app();
        let builtin = builtin.and_then(|name| app.registry().get(name.as_str()));
        let definition = match builtin {
            Some(builtin) => builtin.definition().clone(),
            None => {
                let seconds = entry.cooldown_seconds;
                let cooldown = Duration::try_from_secs_f64(seconds).map_err(|_| {
                    let tool = entry.name.clone();
                    DefinitionsError::Cooldown { tool }
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
    match registry.alias(alias, name) {
        // A tool takes precedence over an alias of the same name.
        Err(RegistryError::AliasIsTool(_)) => Ok(()),
        outcome => outcome,
    }
}
