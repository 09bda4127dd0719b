//! The built-in tools, as the sidecar offers them.

use std::sync::Arc;
use std::time::SystemTime;

use pillion_builtins::{GetTime, GetWeather, SearchSettings, WeatherSettings, WebSearch};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::{Tool, ToolName};
use secrecy::SecretString;

use crate::config::{BuiltinTools, Config, ServiceKey};
use crate::credentials::UserCredentials;
use crate::tool_keys::KeyedTool;

/// Registers the built-in tools and their aliases, and returns the names it added: calling
/// it again adds nothing (B3).
///
/// # Errors
/// [`RegistryError`] when a tool or an alias cannot be registered.
pub fn initialize(registry: &ToolRegistry) -> Result<Vec<ToolName>, RegistryError> {
    let names = registry.register_missing(pillion_builtins::all())?;
    pillion_builtins::set_aliases(registry)?;
    Ok(names)
}

/// Logs how many tools there are at the start, of those that lists show (B3).
pub(crate) fn tell_how_many(registry: &ToolRegistry) {
    let tools = registry.tools(None);
    let offered = tools.iter().filter(|tool| tool.tool().is_offered()).count();
    tracing::info!(tools = offered, "Initialized {offered} tools");
}

/// Has `get_time` tell the time in the zone that the configuration says, where a call says none
/// (D2); nothing changes where it does so already.
///
/// # Errors
/// [`RegistryError`] when the tool cannot be registered.
pub(crate) fn set_time_zone(
    registry: &ToolRegistry,
    zone: Option<&str>,
) -> Result<(), RegistryError> {
    let zoned = zone.and_then(|zone| GetTime::new(zone, SystemTime::now).ok());
    let tool: Arc<dyn Tool> = Arc::new(zoned.unwrap_or_default());
    let schema = tool.definition().input_schema();
    let known = registry.get(tool.definition().name().as_str());
    if known.is_some_and(|known| known.definition().input_schema() != schema) {
        registry.replace(tool)?;
    }
    Ok(())
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
        ..
    } = config.builtins.clone();
    let key_of = |tool: &str| {
        let key = keys.iter().find(|key| key.tool == tool && key.is_in_vault);
        key.map(|key| (*key, vault.clone()))
    };
    let weather = get_weather.map(|settings| {
        let key = key_of("get_weather");
        keyed(key, settings, WeatherSettings::with_key, GetWeather::new)
    });
    let search = web_search.map(|settings| {
        let key = key_of("web_search");
        keyed(key, settings, SearchSettings::with_key, WebSearch::new)
    });
    let store = store.filter(|_| config.memory.enabled);
    let memory = store.map(|store| pillion_builtins::memory::memory(&(store as _)));
    let memory = memory.into_iter().flatten();
    weather.into_iter().chain(search).chain(memory).collect()
}

/// A tool of these settings, with the key that they have; or, where that is named, with the one that
/// the vault has whenever the tool is called.
fn keyed<S, T>(
    key: Option<(ServiceKey, UserCredentials)>,
    settings: S,
    with_key: fn(S, SecretString) -> S,
    make: fn(&S) -> T,
) -> Arc<dyn Tool>
where
    S: Clone + Send + Sync + 'static,
    T: Tool,
{
    match key {
        None => Arc::new(make(&settings)),
        Some((key, vault)) => {
            let make = move |key| -> Arc<dyn Tool> {
                let settings = with_key(settings.clone(), key);
                Arc::new(make(&settings))
            };
            Arc::new(KeyedTool::new(key, vault, make))
        }
    }
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
