//! The built-in tools, as the sidecar offers them.

use std::sync::Arc;

use pillion_builtins::{GetWeather, WebSearch};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::{Tool, ToolName};
use secrecy::SecretString;

use crate::config::{BuiltinTools, Config};
use crate::servers::UserCredentials;
use crate::tool_keys::KeyedTool;

/// Registers the built-in tools and their aliases, and returns the names it added: calling
/// it again adds nothing (B3).
///
/// # Errors
/// [`RegistryError`] when a tool or an alias cannot be registered.
pub fn initialize(registry: &ToolRegistry) -> Result<Vec<ToolName>, RegistryError> {
    let names = registry.register_missing(pillion_builtins::all())?;
    pillion_builtins::set_aliases(registry)?;
    tracing::info!(tools = names.len(), "Initialized {} MCP tools", names.len());
    Ok(names)
}

/// The tools that ask services over the network, with the keys that `vault` has, and those of the
/// memory over `store`, as the configuration has them.
pub(crate) fn configured(
    config: &Config,
    store: Option<Arc<dyn Store>>,
    vault: &UserCredentials,
) -> Vec<Arc<dyn Tool>> {
    let BuiltinTools {
        get_weather,
        web_search,
        keys,
    } = config.builtins.clone();
    let keyed =
        |name: &str, make: Box<dyn Fn(Option<SecretString>) -> Arc<dyn Tool> + Send + Sync>| {
            let key = keys.iter().find(|key| key.tool == name && key.is_in_vault);
            match key {
                None => make(None),
                Some(key) => {
                    let make = move |key| make(Some(key));
                    Arc::new(KeyedTool::new(*key, vault.clone(), make)) as Arc<dyn Tool>
                }
            }
        };
    let weather = get_weather.map(|settings| {
        let make = move |key| {
            let settings = settings.clone();
            Arc::new(GetWeather::new(&match key {
                Some(key) => settings.with_key(key),
                None => settings,
            })) as Arc<dyn Tool>
        };
        keyed("get_weather", Box::new(make))
    });
    let search = web_search.map(|settings| {
        let make = move |key| {
            let settings = settings.clone();
            Arc::new(WebSearch::new(&match key {
                Some(key) => settings.with_key(key),
                None => settings,
            })) as Arc<dyn Tool>
        };
        keyed("web_search", Box::new(make))
    });
    let store = store.filter(|_| config.memory.enabled);
    let memory = store.map(|store| pillion_builtins::memory::memory(&(store as _)));
    let memory = memory.into_iter().flatten();
    weather.into_iter().chain(search).chain(memory).collect()
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
