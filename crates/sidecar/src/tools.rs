//! The built-in tools, as the sidecar offers them.

use std::sync::Arc;

use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::ToolName;

/// Other names for built-in tools, which prompts written for other systems use (H3).
const ALIASES: [(&str, &str); 4] = [
    ("search_tool", "web_search"),
    ("time_tool", "get_time"),
    ("weather_tool", "get_weather"),
    ("weather", "get_weather"),
];

/// Registers the built-in tools and their aliases, and returns the names it added: calling
/// it again adds nothing (B3).
///
/// # Errors
/// [`RegistryError`] when a tool or an alias cannot be registered.
pub fn initialize(registry: &ToolRegistry) -> Result<Vec<ToolName>, RegistryError> {
    let names = registry.register_missing(pillion_builtins::all())?;
    for (alias, target) in ALIASES {
        let is_tool = registry.names().iter().any(|name| name.as_str() == alias);
        if registry.contains(target) && !is_tool {
            registry.alias(alias, target)?;
        }
    }
    tracing::info!(tools = names.len(), "Initialized {} MCP tools", names.len());
    Ok(names)
}

/// A registry with the built-in tools.
///
/// # Errors
/// As for [`initialize`].
pub fn registry() -> Result<Arc<ToolRegistry>, RegistryError> {
    let registry = Arc::new(ToolRegistry::new());
    initialize(&registry)?;
    Ok(registry)
}
