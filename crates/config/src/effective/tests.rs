use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::*;
use crate::{Config, ConfigFile};

/// Returns the setting with this key.
fn find<'a>(config: &'a Config, key: &str) -> &'a EffectiveSetting {
    let mut settings = config.effective.settings().iter();
    let setting = settings.find(|setting| setting.key == key);
    setting.unwrap_or_else(|| panic!("{key} is not listed"))
}

/// Returns the shown value and the origin of a setting.
fn shown(config: &Config, key: &str) -> (String, String) {
    let setting = find(config, key);
    let value = match &setting.value {
        SettingValue::Shown(value) => value.clone(),
        SettingValue::Hidden => "hidden".to_owned(),
    };
    (value, setting.origin.to_string())
}

#[track_caller]
fn check(config: &Config, key: &str, value: &str, origin: &str) {
    assert_eq!(
        shown(config, key),
        (value.to_owned(), origin.to_owned()),
        "{key}"
    );
}

fn load(file: &Path, text: &str, variables: &[(&str, &str)]) -> Config {
    fs::write(file, text).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Config::from_file(Some(&ConfigFile::read(file).unwrap()), variables).unwrap()
}

#[test]
fn each_value_has_its_origin() {
    let directory = tempfile::tempdir().unwrap();
    let (file, models) = (
        directory.path().join("c.toml"),
        directory.path().join("m.toml"),
    );
    fs::write(
        &models,
        "\n[[providers]]\nname = 'google'\nkey_env = 'GOOGLE_KEY'\n",
    )
    .unwrap();
    let text = "models_file = 'm.toml'\n[executor]\ntimeout_ms = 100\nmax_queued = 7\n\
        [approvals]\npolicy = 'always-ask'\nmax_pending = 7\n\
        [[providers]]\nname = 'openai'\n[tools.Far_Echo]\ntimeout_ms = 5\n[cache]\n";
    let variables = [
        ("PILLION__EXECUTOR__TIMEOUT_MS", "250"),
        ("PILLION__APPROVALS", "{max_pending = 5}"),
        ("PILLION__TOOLS__FAR_ECHO__MAX_CONCURRENT", "1"),
        ("MCP_MAX_CONCURRENT_TOOLS", "9"),
        ("LOG_LEVEL", "debug"),
        ("OTEL_SERVICE_NAME", "shop"),
    ];
    let mut config = load(&file, text, &variables);
    let (file, models) = (file.display().to_string(), models.display().to_string());
    let variable = |name: &str| format!("environment variable {name}");
    let line = |line: usize| format!("{file}:{line}");
    for (key, value, origin) in [
        (
            "executor.timeout_ms",
            "250",
            variable("PILLION__EXECUTOR__TIMEOUT_MS"),
        ),
        ("executor.max_queued", "7", line(4)),
        (
            "executor.max_concurrent",
            "9",
            variable("MCP_MAX_CONCURRENT_TOOLS"),
        ),
        ("executor.queue_timeout_ms", "30000", "default".to_owned()),
        ("approvals.policy", "\"always-ask\"", line(6)),
        ("approvals.max_pending", "5", variable("PILLION__APPROVALS")),
        ("log.filter", "\"debug\"", variable("LOG_LEVEL")),
        (
            "telemetry.service_name",
            "\"shop\"",
            variable("OTEL_SERVICE_NAME"),
        ),
        ("providers[0].name", "\"openai\"", line(9)),
        ("providers[1].name", "\"google\"", format!("{models}:3")),
        (
            "providers[1].key_env",
            "\"GOOGLE_KEY\"",
            format!("{models}:4"),
        ),
        ("tools.Far_Echo.timeout_ms", "5", line(11)),
        (
            "tools.Far_Echo.max_concurrent",
            "1",
            variable("PILLION__TOOLS__FAR_ECHO__MAX_CONCURRENT"),
        ),
        ("models_file", "\"m.toml\"", line(1)),
        ("cache.enabled", "true", "default".to_owned()),
    ] {
        check(&config, key, value, &origin);
    }
    config.set_socket_path("/run/other.sock".into());
    check(
        &config,
        "socket.path",
        "\"/run/other.sock\"",
        "command line",
    );
    let keys = |key: &str| {
        let settings = config.effective.settings().iter();
        settings.filter(|setting| setting.key == key).count()
    };
    for (key, count) in [
        ("cache", 0),
        ("executor.rate_limit", 0),
        ("models", 0),
        ("socket.path", 1),
    ] {
        assert_eq!(keys(key), count, "{key}");
    }
}

#[test]
fn the_settings_of_a_section_are_together() {
    let text = "[tools.a]\ntimeout_ms = 5\n[executor.rate_limit]\nper_day = 3\n\
        [servers.egress]\nallow_private = false\n";
    let config = Config::parse(text, "c.toml").unwrap();
    let mut sections: Vec<_> = config
        .effective
        .settings()
        .iter()
        .map(EffectiveSetting::section)
        .collect();
    sections.dedup();
    let section_count = sections.len();
    sections.sort_unstable();
    sections.dedup();
    assert_eq!(sections.len(), section_count);
    check(&config, "executor.rate_limit.per_day", "3", "c.toml:4");
    check(&config, "servers.egress.allow_private", "false", "c.toml:6");
}

#[test]
fn a_value_may_be_set_to_its_default() {
    let text = "[executor]\nmax_queued = 1000\nmax_concurrent = 6\n[log]\nfilter = 'info'\n";
    let config = Config::parse(text, "c.toml").unwrap();
    let is_default = |key: &str| find(&config, key).is_default();
    assert!(is_default("executor.max_queued") && is_default("log.filter"));
    assert!(is_default("executor.timeout_ms") && !is_default("executor.max_concurrent"));
}

#[test]
fn changed_keys_include_hidden_values() {
    let server = "[[mcp_servers]]\nlabel = 'a'\nurl = 'https://mcp.example/'\n";
    let texts = [
        format!("{server}authentication = {{ type = 'bearer', token = 'one' }}\n"),
        format!(
            "{server}authentication = {{ type = 'bearer', token = 'two' }}\n[cache]\nenabled = false\n"
        ),
        String::new(),
    ];
    let [first, second, empty] = texts.map(|text| Config::parse(&text, "c.toml").unwrap());
    check(
        &first,
        "mcp_servers[0].authentication.token",
        "hidden",
        "c.toml:4",
    );
    let changes = |new: &Config, old: &Config| new.effective.changed_keys(&old.effective);
    let expected_keys = ["cache.enabled", "mcp_servers[0].authentication.token"];
    assert_eq!(changes(&second, &first), expected_keys);
    assert_eq!(changes(&first, &first), Vec::<String>::new());
    assert_eq!(changes(&empty, &first).len(), 4);
}

/// The defaults that are not generated from types match the types.
#[test]
fn the_other_defaults_are_the_defaults() {
    let default_config = Config::default();
    for (key, default) in OTHER_DEFAULTS.iter().chain(WASM_DEFAULTS) {
        if default.parse::<Value>().is_ok() {
            let config = Config::parse(&format!("{key} = {default}"), "c.toml").unwrap();
            assert_eq!(config.call_log, default_config.call_log, "{key}");
            assert_eq!(config.wasm_tools, default_config.wasm_tools, "{key}");
        }
    }
}
