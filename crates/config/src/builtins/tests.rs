use std::ffi::OsString;
use std::time::Duration;

use pillion_core::executor::CacheScope;

use crate::{Config, ServiceKey};

const KEY: &str = "k3y";

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    // The file ends with a comment, because an empty file is an error.
    std::fs::write(file.path(), format!("{text}\n# The end.\n")).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let config = Config::load(Some(file.path()), variables);
    let shown = format!("{config:?}");
    assert!(!shown.contains(KEY), "{shown}");
    config.map_err(|error| {
        let message = error.to_string();
        let path = file.path().display().to_string();
        message.replace(&path, "t.toml")
    })
}

/// Loads a configuration with `keys` in the section of a tool, or without that section if there are
/// no keys.
fn load_tool(tool: &str, keys: &str, variables: &[(&str, &str)]) -> Config {
    match keys {
        "" => load("", variables).unwrap(),
        _ => load(&format!("[tools.{tool}]\n{keys}"), variables).unwrap(),
    }
}

#[test]
fn d2_the_default_time_zone_can_be_configured() {
    let zone = |text: &str| load(text, &[]).map(|config| config.builtins.time_zone);
    assert_eq!(zone("[tools.get_time]\ntimeout_ms = 100"), Ok(None));
    let berlin = zone("[tools.get_time]\ntimezone = \"Europe/Berlin\"\ntimeout_ms = 100");
    assert_eq!(berlin, Ok(Some("Europe/Berlin".to_owned())));
    let error = zone("[tools.get_time]\ntimezone = \"Mars/Olympus\"").unwrap_err();
    let expected = "tools.get_time.timezone: Unknown timezone: Mars/Olympus";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn d6_the_configuration_or_a_key_selects_the_weather_service() {
    let key = [("OPENWEATHER_API_KEY", KEY), ("OWN_KEY", KEY)];
    let mock = [("PILLION__TOOLS__GET_WEATHER__PROVIDER", "mock")];
    for (keys, variables, expected) in [
        // No request leaves the machine unless a provider is configured.
        ("", &[][..], "Some(Unset)"),
        ("base_url = 'http://127.0.0.1:9'", &[], "Some(Unset)"),
        ("", &key, "Some(OpenWeatherMap "),
        (
            "provider = 'open-meteo'",
            &key,
            "Some(OpenMeteo { api_key: None ",
        ),
        (
            "provider = 'open-meteo'\napi_key_env = 'OWN_KEY'",
            &key,
            "Some(OpenMeteo { api_key: Some(",
        ),
        (
            "provider = 'openweathermap'\napi_key_env = 'OWN_KEY'",
            &key,
            "Some(OpenWeatherMap ",
        ),
        ("provider = 'mock'", &[], "Some(Mock)"),
        ("provider = 'none'", &key, "None"),
        ("", &mock, "Some(Mock)"),
    ] {
        let config = load_tool("get_weather", keys, variables);
        let weather = config.builtins.get_weather;
        let service = format!("{:?}", weather.map(|settings| settings.service));
        assert!(service.starts_with(expected), "{keys}: {service}");
    }
}

#[test]
fn d7_the_configuration_or_keys_select_the_search_service() {
    let variables = [
        ("GOOGLE_SEARCH_API_KEY", KEY),
        ("GOOGLE_SEARCH_CX", "cx"),
        ("BRAVE_SEARCH_API_KEY", KEY),
    ];
    for (keys, variables, expected) in [
        ("", &[][..], "Some(None)"),
        ("", &variables[..1], "Some(None)"),
        ("", &variables, "Some(Some(Google "),
        (
            "provider = 'google'\ncx = 'mine'",
            &variables,
            "Some(Some(Google ",
        ),
        ("provider = 'brave'", &variables, "Some(Some(Brave "),
        (
            "provider = 'searxng'\nbase_url = 'http://127.0.0.1:8888'",
            &variables,
            "Some(Some(SearXng ",
        ),
        ("provider = 'mock'", &[], "Some(Some(Mock))"),
        ("provider = 'none'", &variables, "None"),
    ] {
        let config = load_tool("web_search", keys, variables);
        let search = config.builtins.web_search;
        let service = format!("{:?}", search.map(|settings| settings.service));
        assert!(service.starts_with(expected), "{keys}: {service}");
        // `cx` in the configuration overrides the variable.
        let is_mine = service.contains("engine: \"mine\"");
        assert_eq!(is_mine, keys.contains("mine"), "{service}");
    }
}

#[test]
fn d7_missing_and_wrong_settings_are_named() {
    for (tool, keys, message) in [
        (
            "web_search",
            "provider = \"google\"",
            "t.toml:1: tools.web_search.cx: set cx (the ID of the search engine) or the \
             environment variable GOOGLE_SEARCH_CX",
        ),
        (
            "web_search",
            "provider = \"google\"\ncx = \"c\"",
            "t.toml:2: tools.web_search.provider: the provider needs an API key: set the \
             environment variable GOOGLE_SEARCH_API_KEY",
        ),
        (
            "web_search",
            "provider = \"searxng\"",
            "t.toml:1: tools.web_search.base_url: set base_url to the URL of the SearXNG server",
        ),
        (
            "web_search",
            "provider = \"brave\"\napi_key_env = \"ABSENT\"",
            "t.toml:3: tools.web_search.api_key_env: the environment variable ABSENT is not set",
        ),
        (
            "web_search",
            "api_key_env = \"OWN\"",
            "t.toml:2: tools.web_search.api_key_env: set provider to the service that the key \
             belongs to",
        ),
        (
            "get_weather",
            "base_url = \"https://me:k3y@example.com/\"",
            "t.toml:2: tools.get_weather.base_url: expected an http:// or https:// URL without \
            user, password or query",
        ),
    ] {
        let error = load(&format!("[tools.{tool}]\n{keys}"), &[("OWN", KEY)]).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    for (tool, key, value) in [
        ("get_weather", "api_key", "k3y"),
        ("get_weather", "cx", "c"),
        ("calculator", "provider", "mock"),
        ("get_weather", "provider", "moon"),
    ] {
        let text = format!("[tools.{tool}]\n{key} = \"{value}\"");
        let error = load(&text, &[("OWN", KEY)]).unwrap_err();
        let message = format!("t.toml:2: tools.{tool}.{key}: ");
        assert!(error.starts_with(&message), "{error}");
    }
}

#[test]
fn n1_without_settings_all_defaults_apply() {
    let config = load("", &[]).unwrap();
    let executor = config.executor_config();
    assert_eq!(executor.max_concurrent.get(), 5);
    for (tool, seconds) in [("calculator", 5), ("web_search", 10), ("get_weather", 10)] {
        let timeout = executor.tool_timeouts[tool];
        assert_eq!(timeout.as_secs(), seconds, "{tool}");
    }
}

#[test]
fn n1_timeouts_and_cache_ttls_have_defaults_and_can_be_set() {
    let config = load("", &[("MCP_SEARCH_TIMEOUT", "2.5")]).unwrap();
    let search = config.builtins.web_search.as_ref().unwrap();
    assert_eq!(search.timeout, Duration::from_millis(2500));
    let weather = config.builtins.get_weather.as_ref().unwrap();
    assert_eq!(weather.timeout, Duration::from_secs(10));
    let executor = config.executor_config();
    assert_eq!(executor.tool_timeouts["web_search"], search.timeout);
    assert_eq!(executor.tool_timeouts["get_weather"], weather.timeout);
    for name in ["get_weather", "web_search"] {
        let rule = executor.cache.tools[name];
        assert_eq!(rule.ttl, Duration::from_secs(300));
        assert_eq!(rule.scope, CacheScope::Public);
    }
    let text = "[tools.get_weather]\ncache_ttl_ms = 0\n\
                [tools.web_search]\ncache_ttl_ms = 1000\ncache_scope = \"private\"";
    let executor = load(text, &[]).unwrap().executor_config();
    assert!(!executor.cache.tools.contains_key("get_weather"));
    let rule = executor.cache.tools["web_search"];
    assert_eq!(rule.ttl, Duration::from_secs(1));
    assert_eq!(rule.scope, CacheScope::Private);
}

#[test]
fn n1_one_setting_disables_all_caching() {
    let text = "[cache]\nenabled = false\n[tools.get_time]\ncache_ttl_ms = 1000";
    let cache = load(text, &[]).unwrap().executor_config().cache;
    assert!(cache.tools.is_empty() && !cache.honor_servers);
    let variable = [("PILLION__CACHE__ENABLED", "false")];
    let cache = load("", &variable).unwrap().executor_config().cache;
    assert!(cache.tools.is_empty() && !cache.honor_servers);
    let cache = load("", &[]).unwrap().executor_config().cache;
    assert!(!cache.tools.is_empty() && cache.honor_servers);
}

#[test]
fn l1_a_key_without_a_variable_may_be_in_the_vault() {
    let vault = "[vault]\nkey_env = \"VAULT\"\n";
    let brave = format!("{vault}[tools.web_search]\nprovider = \"brave\"");
    let config = load(&brave, &[]).unwrap();
    let key = |is_in_vault| ServiceKey {
        tool: "web_search",
        service: "brave",
        is_in_vault,
    };
    assert_eq!(config.builtins.keys, [key(true)]);
    // The environment variable overrides the key in the vault.
    let config = load(&brave, &[("BRAVE_SEARCH_API_KEY", KEY)]).unwrap();
    assert_eq!(config.builtins.keys, [key(false)]);
    assert!(load(vault, &[]).unwrap().builtins.keys.is_empty());
}
