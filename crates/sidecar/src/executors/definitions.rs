use std::sync::Arc;
use std::time::Duration;

use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::{DefinitionError, InvalidToolName, ToolDefinition, ToolName, ToolOrigin};

use super::PhpExecutor;
use super::message::{Definitions, ToolEntry};
use super::tools::{Handler, RegistryTool};

/// Maximum number of tools of one executor.
const MAX_TOOLS: usize = 10_000;

/// Why the tools of a PHP registry are rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum DefinitionsError {
    #[error("An executor may have at most {MAX_TOOLS} tools")]
    Count,
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
    pub(super) fn apply(&self, changes: Definitions) -> Result<(), DefinitionsError> {
        let registry = self.executor.registry();
        for name in &changes.removed {
            registry.unregister(name);
        }
        for entry in changes.tools {
            registry.replace(Arc::new(self.tool(entry)?))?;
            if registry.len() > MAX_TOOLS {
                return Err(DefinitionsError::Count);
            }
        }
        for (alias, name) in &changes.aliases {
            add_alias(registry, alias, name)?;
        }
        Ok(())
    }

    fn tool(&self, entry: ToolEntry) -> Result<RegistryTool, DefinitionsError> {
        let origin = entry.server.map(|server| ToolOrigin::Mcp {
            server_label: server.label,
            server_url: server.url,
        });
        let origin = origin.unwrap_or_default();
        let sidecar_name = entry
            .sidecar_name
            .as_deref()
            .map(ToolName::new)
            .transpose()?;
        // The configuration of the sidecar may set other defaults of a built-in tool.
        let builtin = sidecar_name.as_ref().filter(|_| !origin.is_mcp());
        let app = self.current_app.app();
        let builtin = builtin.and_then(|name| app.registry().get(name.as_str()));
        let definition = match builtin {
            Some(builtin) => builtin.definition().clone(),
            None => {
                let cooldown = Duration::try_from_secs_f64(entry.cooldown_seconds);
                let cooldown = cooldown.map_err(|_| DefinitionsError::Cooldown {
                    tool: entry.name.clone(),
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
            Some(name) => Handler::Sidecar {
                name,
                current_app: self.current_app.downgrade(),
                peer: self.peer,
            },
            None => Handler::Php {
                number: entry.number,
            },
        };
        Ok(RegistryTool {
            definition,
            origin,
            approval_policy: entry.approval_policy,
            handler,
        })
    }
}

fn add_alias(registry: &ToolRegistry, alias: &str, name: &str) -> Result<(), RegistryError> {
    match registry.alias(alias, name) {
        // A tool takes precedence over an alias of the same name.
        Err(RegistryError::AliasIsTool(_)) => Ok(()),
        outcome => outcome,
    }
}
