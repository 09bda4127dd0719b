use pillion_core::registry::{RegistryError, ToolRegistry};

/// Aliases of built-in tools, as pairs of alias and tool, for prompts that were written for other
/// systems.
pub const ALIASES: [(&str, &str); 4] = [
    ("search_tool", "web_search"),
    ("time_tool", "get_time"),
    ("weather_tool", "get_weather"),
    ("weather", "get_weather"),
];

/// Sets the [`ALIASES`] of the registered built-in tools. If another tool has the name of an alias,
/// the alias is not set.
///
/// # Errors
/// The target of an alias is itself an alias in the registry.
///
/// ```
/// use pillion_core::registry::ToolRegistry;
/// let registry = ToolRegistry::new();
/// registry.register_missing(pillion_builtins::all())?;
/// pillion_builtins::set_aliases(&registry)?;
/// assert!(registry.contains("time_tool"));
/// assert!(!registry.contains("search_tool"));
/// # Ok::<(), pillion_core::registry::RegistryError>(())
/// ```
pub fn set_aliases(registry: &ToolRegistry) -> Result<(), RegistryError> {
    for (alias, target) in ALIASES {
        let is_tool_name = registry
            .get(alias)
            .is_some_and(|tool| tool.name().as_str() == alias);
        if registry.contains(target) && !is_tool_name {
            registry.set_alias(alias, target)?;
        }
    }
    Ok(())
}
