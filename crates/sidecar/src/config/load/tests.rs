use std::time::Duration;

use super::*;
use crate::config::{Group, LogFilter, LogFormat};

fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    read(
        &Source {
            name: "pillion.toml",
            text,
        },
        variables,
    )
}

fn message(text: &str, variables: &[(&str, &str)]) -> String {
    let message = with_variables(text, variables).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn nothing_at_all_gives_the_defaults() {
    let config = with_variables("", &[]).unwrap();
    assert_eq!(config.executor.timeout, Duration::from_secs(30));
    assert_eq!(config.executor.max_concurrent.get(), 5);
    assert_eq!(config.http.max_body_bytes.get(), 1 << 20);
    assert_eq!(config.socket.path, None);
    let core = config.executor.to_core(&config.tools);
    assert_eq!(core.tool_timeouts["calculator"], Duration::from_secs(5));
}

#[test]
fn the_environment_wins_over_the_file() {
    let text = "[executor]\ntimeout_ms = 100\nmax_concurrent = 2\n[socket]\ngroup = \"a\"";
    let variables = [
        ("PILLION__EXECUTOR__TIMEOUT_MS", "250"),
        ("PILLION__SOCKET__GROUP", "33"),
        ("PILLION__LOG__FORMAT", "json"),
        ("PILLION__TOOLS__GET_TIME__RATE_LIMIT", "{per_minute = 3}"),
        ("PILLION__HTTP__MAX_CONNECTIONS", ""),
        ("PILLION_SOCKET", "/elsewhere"),
    ];
    let config = with_variables(text, &variables).unwrap();
    assert_eq!(config.executor.timeout, Duration::from_millis(250));
    assert_eq!(config.executor.max_concurrent.get(), 2);
    assert_eq!(config.socket.group, Some(Group::Id(33)));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.http.max_connections.get(), 512);
    let core = config.executor.to_core(&config.tools);
    assert_eq!(core.rate_limits.tools["get_time"].per_minute, Some(3));
}

#[test]
fn n1_the_variables_of_the_seed_are_read_and_pillions_own_win() {
    let seeds = [
        ("MCP_MAX_CONCURRENT_TOOLS", "7"),
        ("MCP_CALCULATOR_TIMEOUT", "2.5"),
    ];
    let config = with_variables("[executor]\nmax_concurrent = 2", &seeds).unwrap();
    assert_eq!(config.executor.max_concurrent.get(), 7);
    let core = config.executor.to_core(&config.tools);
    assert_eq!(
        core.tool_timeouts["calculator"],
        Duration::from_millis(2500)
    );
    let both = [seeds[0], ("PILLION__EXECUTOR__MAX_CONCURRENT", "9")];
    let config = with_variables("", &both).unwrap();
    assert_eq!(config.executor.max_concurrent.get(), 9);
    for bad in ["abc", "-1", "0", "nan", "inf"] {
        let message = message("", &[("MCP_CALCULATOR_TIMEOUT", bad)]);
        assert_eq!(
            message,
            "environment variable MCP_CALCULATOR_TIMEOUT: tools.calculator.timeout_ms: \
             expected a number of seconds above zero"
        );
    }
    let message = message("", &[("MCP_MAX_CONCURRENT_TOOLS", "0")]);
    assert!(
        message.starts_with(
            "environment variable MCP_MAX_CONCURRENT_TOOLS: executor.max_concurrent: "
        ),
        "{message}"
    );
}

#[test]
fn a_bad_value_in_the_file_names_file_line_and_key() {
    let cases = [
        (
            "\n[executor]\ntimeout_ms = \"soon\"",
            "pillion.toml:3: executor.timeout_ms: invalid type: string \"soon\", expected whole milliseconds from 1 to 86400000",
        ),
        (
            "executor.timeout_ms = 0",
            "pillion.toml:1: executor.timeout_ms: invalid value: integer `0`, expected whole milliseconds from 1 to 86400000",
        ),
        (
            "executor.timeout_ms = -5",
            "pillion.toml:1: executor.timeout_ms: invalid value: integer `-5`, expected",
        ),
        (
            "executor.timeout_ms = 1.5",
            "pillion.toml:1: executor.timeout_ms: invalid type: floating point `1.5`, expected",
        ),
        (
            "[http]\n\nmax_body_bytes = true",
            "pillion.toml:3: http.max_body_bytes: invalid type: boolean `true`, expected a nonzero usize",
        ),
        (
            "[tools.x]\n[tools.x.rate_limit]\nper_minute = 0",
            "pillion.toml:3: tools.x.rate_limit.per_minute: ",
        ),
        (
            "[log]\nformat = \"xml\"",
            "pillion.toml:2: log.format: unknown variant `xml`, expected one of `auto`, `json`, `text`",
        ),
        ("[log]\nfilter = \"a=b=c\"", "pillion.toml:2: log.filter: "),
        (
            "[socket]\ngroup = 1.5",
            "pillion.toml:2: socket.group: invalid type: floating point `1.5`, expected the name or the number of a group",
        ),
    ];
    for (text, expected) in cases {
        let message = message(text, &[]);
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_it() {
    let error = message("[executor]\ntimeout_ms = 1\ntimeout = 5", &[]);
    assert!(error.starts_with("pillion.toml:3: executor.timeout: unknown field `timeout`, expected one of `timeout_ms`"), "{error}");
    let error = message("", &[("PILLION__EXECUTR__TIMEOUT_MS", "5")]);
    assert!(
        error.starts_with(
            "environment variable PILLION__EXECUTR__TIMEOUT_MS: executr: unknown field"
        ),
        "{error}"
    );
}

#[test]
fn a_bad_variable_is_named() {
    let error = message(
        "[executor]\ntimeout_ms = 5",
        &[("PILLION__EXECUTOR__TIMEOUT_MS", "soon")],
    );
    assert!(error.starts_with("environment variable PILLION__EXECUTOR__TIMEOUT_MS: executor.timeout_ms: invalid type: string \"soon\""), "{error}");
    let error = message("executor = 5", &[("PILLION__EXECUTOR__TIMEOUT_MS", "5")]);
    assert!(error.contains("holds a value, not a table"), "{error}");
}

#[test]
fn broken_toml_names_file_and_line() {
    let error = message("[executor]\n\ntimeout_ms = = 5", &[]);
    assert!(error.starts_with("pillion.toml:3: "), "{error}");
    let error = Config::load(Some(Path::new("/nowhere/pillion.toml")), []).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/nowhere/pillion.toml: No such file"),
        "{error}"
    );
}

#[test]
fn m2_a_bare_level_leaves_the_libraries_quiet() {
    let config = with_variables("", &[("LOG_LEVEL", "DEBUG")]).unwrap();
    assert_eq!(
        config.log.filter.to_env_filter().to_string(),
        "pillion=debug,warn"
    );
    let directives = LogFilter::try_from("info,hyper=debug".to_owned()).unwrap();
    assert_eq!(directives.to_env_filter().to_string(), "hyper=debug,info");
}
