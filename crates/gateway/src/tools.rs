//! The built-in tools.

use std::sync::Arc;
use std::time::SystemTime;

use pillion_builtins::{GetTime, GetWeather, SearchSettings, WeatherSettings, WebSearch};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::{Tool, ToolName};
use secrecy::SecretString;

use crate::credentials::UserCredentials;
use crate::tool_keys::KeyedTool;
use pillion_config::{Config, ServiceKey};

/// Registers the built-in tools that are missing, and their aliases. Returns the names of the added
/// tools; a second call adds none.
///
/// # Errors
/// [`RegistryError`] if a tool or an alias cannot be registered.
pub fn initialize(registry: &ToolRegistry) -> Result<Vec<ToolName>, RegistryError> {
    let names = registry.register_missing(pillion_builtins::all())?;
    pillion_builtins::set_aliases(registry)?;
    Ok(names)
}

/// Logs the number of offered tools at start-up.
pub fn log_count(registry: &ToolRegistry) {
    let tools = registry.tools(None);
    let offered_count = tools.iter().filter(|tool| tool.tool().is_offered()).count();
    tracing::info!(tools = offered_count, "Initialized {offered_count} tools");
}

/// Sets the default time zone of `get_time`, if it differs from the current one.
///
/// # Errors
/// [`RegistryError`] if the tool cannot be registered.
pub fn set_time_zone(registry: &ToolRegistry, zone: Option<&str>) -> Result<(), RegistryError> {
    let zoned_tool = zone.and_then(|zone| GetTime::new(zone, SystemTime::now).ok());
    let tool: Arc<dyn Tool> = Arc::new(zoned_tool.unwrap_or_default());
    let schema = tool.definition().input_schema();
    let registered_tool = registry.get(tool.definition().name().as_str());
    if registered_tool.is_some_and(|tool| tool.definition().input_schema() != schema) {
        registry.replace(tool)?;
    }
    Ok(())
}

/// Creates the configured tools that call services over the network, with the keys in the vault,
/// and the memory tools over `store`.
pub fn build_configured(
    config: &Config,
    store: Option<Arc<dyn Store>>,
    credentials: &UserCredentials,
) -> Vec<Arc<dyn Tool>> {
    let builtins = &config.builtins;
    let find_key = |tool: &str| {
        let mut keys = builtins.keys.iter();
        let key = keys.find(|key| key.tool == tool && key.is_in_vault);
        key.map(|key| (*key, credentials.clone()))
    };
    let weather_tool = builtins.get_weather.clone().map(|settings| {
        let key = find_key("get_weather");
        create_keyed(key, settings, WeatherSettings::with_key, GetWeather::new)
    });
    let search_tool = builtins.web_search.clone().map(|settings| {
        let key = find_key("web_search");
        create_keyed(key, settings, SearchSettings::with_key, WebSearch::new)
    });
    let store = store.filter(|_| config.memory.enabled);
    let memory_tools = store.map(|store| pillion_builtins::memory::memory(&(store as _)));
    weather_tool
        .into_iter()
        .chain(search_tool)
        .chain(memory_tools.into_iter().flatten())
        .collect()
}

/// Creates a tool with the settings `settings`. If `key` is set, the tool reads its key from the
/// vault for each call; otherwise the settings contain the key.
fn create_keyed<S, T>(
    key: Option<(ServiceKey, UserCredentials)>,
    settings: S,
    with_key: fn(S, SecretString) -> S,
    create_tool: fn(&S) -> T,
) -> Arc<dyn Tool>
where
    S: Clone + Send + Sync + 'static,
    T: Tool,
{
    match key {
        None => Arc::new(create_tool(&settings)),
        Some((key, credentials)) => {
            let create_with_key = move |key| -> Arc<dyn Tool> {
                let keyed_settings = with_key(settings.clone(), key);
                Arc::new(create_tool(&keyed_settings))
            };
            Arc::new(KeyedTool::new(key, credentials, create_with_key))
        }
    }
}

/// Creates a registry with the built-in tools.
///
/// # Errors
/// The same errors as [`initialize`].
pub fn registry() -> Result<Arc<ToolRegistry>, RegistryError> {
    let registry = Arc::new(ToolRegistry::new());
    initialize(&registry)?;
    Ok(registry)
}
