use std::num::NonZeroUsize;
use std::time::Duration;

use pillion_core::executor::ApprovalPolicy;
use pillion_mcp_client::Endpoint;

use super::*;
use crate::{ConfigWarning, LogFilter, LogFormat, SystemGroup};

fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let source = ConfigText {
        name: "pillion.toml",
        text,
    };
    let (config, taken) = read(&source, variables, EntryFilter::All)?;
    Ok(config.with_servers(taken.servers))
}

fn message(text: &str, variables: &[(&str, &str)]) -> String {
    let message = with_variables(text, variables).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

/// Checks that the message of a rejected configuration begins with `start`.
#[track_caller]
fn check_message(text: &str, variables: &[(&str, &str)], start: &str) {
    let message = message(text, variables);
    assert!(message.starts_with(start), "{text}: {message}");
}

fn parse(text: &str) -> Config {
    with_variables(text, &[]).unwrap()
}

#[test]
fn an_empty_configuration_gives_the_defaults() {
    let config = parse("");
    assert_eq!(config.executor.timeout, Duration::from_secs(30));
    assert_eq!(config.executor.max_concurrent, None);
    assert_eq!(config.http.max_body_bytes.get(), 1 << 20);
    assert_eq!(config.socket.path, None);
    let core = config.executor.to_core(&config.tools);
    assert_eq!(core.max_concurrent.get(), 5);
    assert_eq!(core.max_concurrent_total.get(), 20);
    assert_eq!(core.tool_timeouts["calculator"], Duration::from_secs(5));
}

#[test]
fn c1_concurrency_is_configured_for_each_source_and_in_total() {
    let numbers = |keys: &str| {
        let config = parse(&format!("[executor]\n{keys}"));
        let core = config.executor.to_core(&config.tools);
        let local = core.max_concurrent_local.map(NonZeroUsize::get);
        let total = core.max_concurrent_total.get();
        (core.max_concurrent.get(), total, local)
    };
    assert_eq!(numbers("max_concurrent = 2"), (2, 20, None));
    assert_eq!(numbers("max_concurrent = 8"), (8, 32, None));
    assert_eq!(numbers("max_concurrent_total = 9"), (5, 9, None));
    let all = "max_concurrent = 2\nmax_concurrent_local = 3\nmax_concurrent_total = 9";
    assert_eq!(numbers(all), (2, 9, Some(3)));
    let server = format!("{SERVER}max_concurrent = 1\n");
    let config = parse(&server);
    let label = config.mcp_servers[0].label();
    let core = config.executor_config();
    assert_eq!(core.server_concurrency[label].get(), 1);
}

#[test]
fn the_environment_wins_over_the_file() {
    let text = "[executor]\ntimeout_ms = 100\nmax_concurrent = 2\n[socket]\ngroup = \"a\"";
    let variables = [
        ("PILLION__EXECUTOR__TIMEOUT_MS", "250"),
        ("PILLION__SOCKET__GROUP", "33"),
        ("PILLION__LOG__FORMAT", "json"),
        ("PILLION__TOOLS__GET_TIME__RATE_LIMIT", "{per_minute = 3}"),
        ("PILLION__TOOLS__ROLL_DICE__MAX_CONCURRENT", "1"),
        ("PILLION_SOCKET", "/elsewhere"),
    ];
    let config = with_variables(text, &variables).unwrap();
    assert_eq!(config.executor.timeout, Duration::from_millis(250));
    assert_eq!(config.executor.max_concurrent, NonZeroUsize::new(2));
    assert_eq!(config.socket.group, Some(SystemGroup::Id(33)));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.http.max_connections.get(), 512);
    let core = config.executor.to_core(&config.tools);
    assert_eq!(core.rate_limits.tools["get_time"].per_minute, Some(3));
    assert_eq!(core.tool_concurrency["roll_dice"].get(), 1);
}

#[test]
fn n1_legacy_variables_are_read_and_pillion_variables_win() {
    let seeds = [
        ("MCP_MAX_CONCURRENT_TOOLS", "7"),
        ("MCP_CALCULATOR_TIMEOUT", "2.5"),
    ];
    let config = with_variables("[executor]\nmax_concurrent = 2", &seeds).unwrap();
    assert_eq!(config.executor.max_concurrent, NonZeroUsize::new(7));
    let core = config.executor.to_core(&config.tools);
    assert_eq!(core.max_concurrent_total.get(), 7);
    assert_eq!(core.tool_timeouts["calculator"].as_millis(), 2500);
    let both = [seeds[0], ("PILLION__EXECUTOR__MAX_CONCURRENT", "9")];
    let config = with_variables("", &both).unwrap();
    assert_eq!(config.executor.max_concurrent, NonZeroUsize::new(9));
    for bad in ["abc", "-1", "0", "nan", "inf"] {
        assert_eq!(
            message("", &[("MCP_CALCULATOR_TIMEOUT", bad)]),
            "environment variable MCP_CALCULATOR_TIMEOUT: tools.calculator.timeout_ms: \
             expected a number of seconds above zero"
        );
    }
    let start = "environment variable MCP_MAX_CONCURRENT_TOOLS: executor.max_concurrent: ";
    check_message("", &[("MCP_MAX_CONCURRENT_TOOLS", "0")], start);
}

#[test]
fn n2_features_are_off_by_default_and_the_environment_wins_over_the_file() {
    let features = |text: &str, variables: &[(&str, &str)]| {
        let features = with_variables(text, variables).unwrap().features;
        (features.llm, features.llm_visible)
    };
    assert_eq!(features("", &[]), (false, false));
    let file = "[features]\nllm = true\nllm_visible = false\n";
    assert_eq!(features(file, &[]), (true, false));
    let variables = [
        ("PILLION__FEATURES__LLM", "false"),
        ("PILLION__FEATURES__LLM_VISIBLE", "true"),
    ];
    assert_eq!(features(file, &variables), (false, true));
}

#[test]
fn files_named_by_a_bad_configuration_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.toml");
    let text = "models_file = \"models.toml\"\n[tcp]\ntokens_file = \"tokens\"\nlisten = 7\n\
        [[openapi]]\ndocument = \"a.yaml\"\n[[openapi]]\ndocument = 7\n";
    std::fs::write(&file, text).unwrap();
    let named = |file| Config::referenced_files(Some(&ConfigFile::read(file).unwrap()), []);
    let models = directory.path().join("models.toml");
    assert_eq!(named(&file), ["a.yaml".into(), "tokens".into(), models]);
    std::fs::write(&file, "[tcp").unwrap();
    assert!(named(&file).is_empty());
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
            "pillion.toml:3: http.max_body_bytes: invalid type: boolean `true`, expected a whole number from 1",
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
            "pillion.toml:2: socket.group: invalid type: floating point `1.5`, expected the name \
             or id of a group",
        ),
    ];
    for (text, expected) in cases {
        check_message(text, &[], expected);
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_it() {
    check_message(
        "[executor]\ntimeout_ms = 1\ntimeout = 5",
        &[],
        "pillion.toml:3: executor.timeout: unknown field `timeout` (did you mean `timeout_ms`?), expected one of `timeout_ms`",
    );
    let start = "environment variable PILLION__EXECUTR__TIMEOUT_MS: executr: unknown field";
    check_message("", &[("PILLION__EXECUTR__TIMEOUT_MS", "5")], start);
}

#[test]
fn a_bad_variable_is_named() {
    check_message(
        "[executor]\ntimeout_ms = 5",
        &[("PILLION__EXECUTOR__TIMEOUT_MS", "soon")],
        "environment variable PILLION__EXECUTOR__TIMEOUT_MS: executor.timeout_ms: invalid type: string \"soon\"",
    );
    let error = message("executor = 5", &[("PILLION__EXECUTOR__TIMEOUT_MS", "5")]);
    assert!(error.contains("is a value, not a table"), "{error}");
}

#[test]
fn an_endless_file_is_not_read_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("endless.toml");
    let sparse = std::fs::File::create(&file).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let path = file.display();
    let error = Config::load(Some(&file), []).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot read {path}: the file is larger than 16777216 bytes")
    );
    assert_eq!(
        message(&format!("models_file = \"{path}\""), &[]),
        format!(
            "pillion.toml:1: models_file: cannot read {path}: the file is larger than 16777216 bytes"
        )
    );
}

#[test]
fn only_regular_files_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    let (zero, null) = (Path::new("/dev/zero"), Path::new("/dev/null"));
    for path in [directory.path(), &pipe, &socket, &link, zero, null] {
        let shown = path.display().to_string();
        let error = Config::load(Some(path), []).unwrap_err().to_string();
        let start = format!("cannot read {shown}: ");
        assert!(error.starts_with(&start), "{error}");
        for key in [
            "models_file = \"F\"",
            "[[openapi]]\nname = \"x\"\noperations = [\"a\"]\ndocument = \"F\"",
        ] {
            let error = message(&key.replace('F', &shown), &[]);
            assert!(error.contains(&format!("{shown}: ")), "{error}");
        }
    }
}

#[test]
fn a_variable_that_would_have_no_effect_is_an_error() {
    for (variable, value) in [
        ("PILLION__APPROVALS__POLICY", ""),
        ("PILLION__TOKENS", ""),
        ("PILLION__", "x"),
        ("PILLION____POLICY", "always-ask"),
        ("PILLION__POLICY", "always-ask"),
        ("PILLION__APROVALS__POLICY", "always-ask"),
        ("PILLION__APPROVALS__POLICIES", "always-ask"),
        ("PILLION__APPROVALS__POLICY__", "always-ask"),
        ("PILLION__APPROVALS__POLICY", "allways"),
        ("PILLION__APPROVALS__POLICY", "3"),
        ("PILLION__APPROVALS", "always-ask"),
        ("PILLION__APPROVALS", "{}"),
        ("PILLION_APPROVALS__POLICY", "always-ask"),
        ("pillion__approvals__policy", "always-ask"),
        ("Pillion__Approvals__Policy", "always-ask"),
        ("PILLION_APPROVALS__POLICY", ""),
    ] {
        let error = message("", &[(variable, value)]);
        let expected = format!("environment variable {variable}: ");
        assert!(error.starts_with(&expected), "{variable}={value}: {error}");
    }
    // Empty variables of other programs, and of Pillion if they set no key, are not errors.
    for variable in [
        "LOG_LEVEL",
        "MCP_SEARCH_TIMEOUT",
        "PILLION_SOCKET",
        "PILLION_CONFIG",
    ] {
        with_variables("", &[(variable, "")]).unwrap();
    }
}

#[test]
fn a_variable_with_a_table_leaves_the_other_keys_of_the_file() {
    let file = "[approvals]\npolicy = \"always-ask\"\nmax_pending = 7\n\
                [tools.calculator]\nrequire_approval = \"always\"\n";
    let alone = parse(file);
    for (variable, value) in [
        ("PILLION__APPROVALS", "{max_pending = 5}"),
        ("PILLION__TOOLS", "{calculator = {timeout_ms = 5000}}"),
        ("PILLION__TOOLS", "{get_time = {timeout_ms = 5000}}"),
        ("PILLION__TOOLS__CALCULATOR", "{timeout_ms = 5000}"),
    ] {
        let config = with_variables(file, &[(variable, value)]).unwrap();
        assert_eq!(config.approvals.policy, alone.approvals.policy);
        let policy = |config: &Config| config.tools["calculator"].require_approval;
        assert_eq!(policy(&config), policy(&alone), "{variable}={value}");
    }
    let variables = [
        ("PILLION__APPROVALS", "{max_pending = 5, policy = 'auto'}"),
        ("PILLION__APPROVALS__MAX_PENDING", "6"),
    ];
    let config = with_variables(file, &variables).unwrap();
    assert_eq!(config.approvals.max_pending.get(), 6);
    assert_ne!(config.approvals.policy, alone.approvals.policy);
    let error = message(file, &[("PILLION__TOOLS", "{calculator = 5}")]);
    assert!(error.contains("is a value, not a table"), "{error}");
}

#[test]
fn a_variable_applies_to_a_tool_in_any_case() {
    let timeout = ("PILLION__TOOLS__CRM_DELETEUSER__TIMEOUT_MS", "7");
    let approval = ("PILLION__TOOLS__CRM_DELETEUSER__REQUIRE_APPROVAL", "always");
    let calculator = ("PILLION__TOOLS__CALCULATOR__TIMEOUT_MS", "8");
    for file in [
        "",
        "[tools.crm_deleteUser]\ntimeout_ms = 6\n",
        "[tools.CRM_DELETEUSER]\ntimeout_ms = 6\n",
        "[tools.crm_deleteuser]\nrequire_approval = 'never'\n",
    ] {
        let config = with_variables(file, &[timeout, approval, calculator]).unwrap();
        let core = config.executor_config();
        for name in ["crm_deleteUser", "crm_deleteuser", "CRM_DELETEUSER"] {
            assert_eq!(core.tool_timeouts[name].as_millis(), 7, "{file}");
            let policy = core.approvals.tools[name];
            assert_eq!(policy, ApprovalPolicy::AlwaysAsk, "{file}");
        }
        assert_eq!(core.tool_timeouts["calculator"].as_millis(), 8);
        assert_eq!(core.tool_timeouts.get("crm_other"), None);
    }
    // A section of the file applies only to tools with exactly its name.
    let config = with_variables("[tools.Echo]\ntimeout_ms = 6", &[timeout]).unwrap();
    assert_eq!(config.executor_config().tool_timeouts.get("echo"), None);
    let both = "[tools.crm_deleteUser]\ntimeout_ms = 6\n[tools.crm_DeleteUser]\ntimeout_ms = 6\n";
    let error = message(both, &[timeout]);
    assert!(error.contains(timeout.0), "{error}");
    assert!(error.contains("more than once"), "{error}");
    let lower = ("PILLION__TOOLS__crm_deleteUser__TIMEOUT_MS", "9");
    let error = message("", &[timeout, lower]);
    assert!(error.contains("also sets this key"), "{error}");
}

#[test]
fn a_variable_of_pillion_that_names_nothing_is_an_error_or_a_warning() {
    for variable in [
        "PILLION_APPROVALS_POLICY",
        "PILLION_TOOLS_ROLL_DICE_REQUIRE_APPROVAL",
        "PILLION_TOOLS_GET_WEATHER_API_KEY_ENV",
        "PILLION_TOOLS_X_RATE_LIMIT_PER_MINUTE",
        "pillion_approvals_policy",
        "PILLION_MCP_PIN",
        "PILLION_TCP_TOKENS_STORE",
        "PILLION_SOCKET_MODE",
        "PILLION_EXECUTOR_RATE_LIMIT_PER_DAY",
        "PILLION_CONFIG_FILE",
        "PILLION_CONF",
        "PILLION_CONFG",
        "PILLION_SOCKET_PATH",
        "pillion_config",
    ] {
        let error = message("", &[(variable, "x")]);
        let expected = format!("environment variable {variable}: ");
        assert!(error.starts_with(&expected), "{variable}: {error}");
    }
    let warned = |text: &str, variable: &str| {
        let warnings = with_variables(text, &[(variable, "x")])
            .unwrap()
            .warnings(|_| None);
        assert!(warnings.len() < 2, "{warnings:?}");
        warnings.first().map(ToString::to_string)
    };
    // Scripts, tests and the service manager of containers set these variables.
    for variable in [
        "PILLION_REQUIRE_PEERS",
        "PILLION_SKIPPED_TESTS",
        "PILLION_WITHOUT_LARAVEL",
        "PILLION_FAKE_LLM",
        "PILLION_FPM_OPTIONS",
        "PILLION_CONTRACT",
        "PILLION_BUILT",
        "PILLION_PORT",
        "PILLION_SERVICE_HOST",
        "PILLION_PORT_7420_TCP_ADDR",
        "PILLION_TCP_SERVICE_PORT",
        "PILLION_VAULT_KEY",
        "Pillion_x",
    ] {
        let warning = warned("", variable).expect(variable);
        let expected = format!("environment variable {variable}: unknown variable");
        assert!(warning.starts_with(&expected), "{warning}");
        // A variable that the configuration names is used.
        let text = format!("[tcp]\ntokens_env = '{variable}'");
        assert_eq!(warned(&text, variable), None);
    }
    for variable in [
        "PILLION_CONFIG",
        "PILLION_ROOT",
        "PILLION_APPROVALS_STORE",
        "PILLION",
    ] {
        assert_eq!(warned("", variable), None);
    }
}

#[test]
fn every_variable_of_the_laravel_package_is_known() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../php-ext/laravel/config/pillion.php"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let names: Vec<_> = text
        .split("env('")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .collect();
    assert!(names.len() > 5, "{names:?}");
    for &name in names.iter().filter(|name| name.starts_with("PILLION_")) {
        let config = with_variables("", &[(name, "x")]).unwrap();
        assert!(config.unknown_variables.is_empty(), "{name}");
    }
}

#[test]
fn a_blank_name_or_credential_is_an_error() {
    for text in [
        "[socket]\npath = ''",
        "[tcp]\ntokens_file = ''",
        "[tcp]\ntokens_env = ' '",
        "[store]\nlocation = ''",
        "[results]\ndirectory = ''",
        "[vault]\nkey_file = ''",
        "[vault]\nkey_env = ''",
        "[wasm_tools]\nfolder = ''",
    ] {
        let error = message(text, &[]);
        assert!(error.starts_with("pillion.toml:2: "), "{error}");
        assert!(error.contains("empty"), "{error}");
    }
    for (authentication, value) in [
        ("{ type = 'bearer', token = '' }", ""),
        ("{ type = 'bearer', token = ' \\t' }", ""),
        ("{ type = 'api-key', key = '' }", ""),
        (
            "{ type = 'oauth', grant = 'client_credentials', client_id = 'a', client_secret = '' }",
            "",
        ),
        ("{ type = 'bearer', token_env = 'TOKEN' }", ""),
        ("{ type = 'bearer', token_env = 'TOKEN' }", " \n"),
    ] {
        let authentication = authentication.replace("' \\t'", "\" \\t\"");
        let text = format!("{SERVER}authentication = {authentication}");
        let error = message(&text, &[("TOKEN", value)]);
        let expected = "pillion.toml:4: mcp_servers[0].authentication.";
        assert!(error.starts_with(expected), "{authentication}: {error}");
    }
    let basic = "authentication = { type = 'basic', username = 'key', password = '' }";
    parse(&format!("{SERVER}{basic}"));
}

#[test]
fn an_invalid_proxy_is_an_error() {
    let invalid_proxy = [("http_proxy", "http//proxy.corp")];
    check_message("", &invalid_proxy, "environment variable http_proxy: ");
    with_variables("", &[("http_proxy", "http://proxy.corp")]).unwrap();
}

#[test]
fn a_text_that_looks_like_an_unfinished_write_does_not_replace_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pillion.toml");
    let file = |text: &str| {
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(&path).unwrap()
    };
    let check = |text: &str, before: &str| {
        let (file, previous) = (file(text), file(before));
        file.check_replaces(&previous)?;
        file.check_keeps_end(&previous)
    };
    let before = "# 1\n[approvals]\nmax_pending = 200\npolicy = \"always-ask\"\n";
    let unended = before.trim_end();
    for text in ["", "\n \n", "\u{feff}"] {
        assert!(check(text, before).is_err() && check(text, unended).is_err());
    }
    for changed in [before, &before.replace("# 1", "# 2")] {
        // A text in which only the first line was changed may have lost the other lines.
        for end in 5..unended.len() {
            for before in [before, unended] {
                let error = check(&changed[..end], before).unwrap_err().to_string();
                assert!(error.contains("pillion.toml: "), "{end}: {error}");
            }
        }
        let whole = &changed[..unended.len()];
        assert!(check(whole, before).is_err());
        check(whole, unended).unwrap();
        check(changed, unended).unwrap();
        check(changed, before).unwrap();
    }
    for text in [
        "# No settings.\n",
        "[approvals]\nmax_pending = 200\n# No policy.\n",
        "[approvals]\npolicy = \"always-ask\"\nmax_pending = 200\n",
        "[approvals]\npolicy = \"always-ask\"\n",
        &before.replace("200", "300"),
        &before.replace('\n', "\r\n"),
        &format!("{before}[log]\n"),
    ] {
        check(text, before).unwrap();
    }
    check("[log]\n", "[log]\n\n# The end.\n").unwrap();
    check("a = 3", "a = 2").unwrap();
    check("", "\n").unwrap();
    // Truncated JSON is invalid anyway, so this text is complete.
    check("{\"a\": 1}", "{\"a\": 1}\n").unwrap();
}

#[test]
fn an_empty_file_is_an_error_and_a_file_without_a_last_line_break_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pillion.toml");
    let models = directory.path().join("models.toml");
    let load = |text: &str, named: &str| {
        std::fs::write(&path, text).unwrap();
        std::fs::write(&models, named).unwrap();
        Config::load(Some(&path), [])
    };
    let name = "models_file = 'models.toml'\n";
    for (text, named) in [("", ""), (" \n", ""), ("\u{feff}", ""), (name, "\n")] {
        let error = load(text, named).unwrap_err().to_string();
        assert!(error.contains("toml: the file is empty"), "{error}");
    }
    for (text, named, count) in [
        (name, "# none\n", 0),
        (name.trim_end(), "# none\n", 1),
        (name, "# none", 1),
    ] {
        let warnings = load(text, named).unwrap().warnings(|_| None);
        assert_eq!(warnings.len(), count, "{warnings:?}");
        let is_named = |warning: &ConfigWarning| {
            let warning = warning.to_string();
            warning.contains(".toml: the last line has no line break")
        };
        assert!(warnings.iter().all(is_named), "{warnings:?}");
    }
}

#[test]
fn broken_toml_names_file_and_line() {
    check_message("[executor]\n\ntimeout_ms = = 5", &[], "pillion.toml:3: ");
    let error = Config::load(Some(Path::new("/nowhere/pillion.toml")), []).unwrap_err();
    let start = "cannot read /nowhere/pillion.toml: No such file";
    assert!(error.to_string().starts_with(start), "{error}");
}

#[test]
fn m2_a_log_level_alone_does_not_apply_to_libraries() {
    let config = with_variables("", &[("LOG_LEVEL", "DEBUG")]).unwrap();
    let filter = config.log.filter.to_env_filter();
    assert_eq!(filter.to_string(), "pillion=debug,warn");
    let directives = LogFilter::try_from("info,hyper=debug".to_owned()).unwrap();
    assert_eq!(directives.to_env_filter().to_string(), "hyper=debug,info");
}

const SERVER: &str = "[[mcp_servers]]\nlabel = \"a\"\nurl = \"https://example.com/mcp\"\n";

#[test]
fn mcp_servers_have_defaults_and_separate_settings() {
    let text = format!(
        "{SERVER}\n[[mcp_servers]]\nlabel = \"b\"\nurl = \"http://localhost/\"\nenabled = false\ntool_prefix = \"\"\nrate_limit = {{ per_day = 4 }}"
    );
    let config = parse(&text);
    let [a, b] = config.mcp_servers.as_slice() else {
        panic!("{config:?}");
    };
    assert_eq!((a.label(), a.settings.enabled), ("a", true));
    assert_eq!(a.tool_prefix(), "a_");
    assert_eq!((b.label(), b.settings.enabled), ("b", false));
    assert_eq!(b.tool_prefix(), "");
    assert_eq!(b.settings.rate_limit.unwrap().per_day.unwrap().get(), 4);
    for (label, prefix) in [("my mcp", "my_mcp_"), ("9.x", "_9_x_"), ("über", "_ber_")] {
        let text = SERVER.replace("\"a\"", &format!("{label:?}"));
        let config = parse(&text);
        assert_eq!(config.mcp_servers[0].tool_prefix(), prefix);
    }
}

#[test]
fn mcp_servers_can_come_from_a_variable() {
    let servers = r#"[{label = "a", url = "http://localhost/"}]"#;
    let config = with_variables("", &[("PILLION__MCP_SERVERS", servers)]).unwrap();
    assert_eq!(config.mcp_servers[0].label(), "a");
    let bad = r#"[{label = "a", url = 5}]"#;
    let start = "environment variable PILLION__MCP_SERVERS: mcp_servers[0].url: ";
    check_message("", &[("PILLION__MCP_SERVERS", bad)], start);
}

#[test]
fn e7_a_server_can_be_a_command_with_secrets_from_variables() {
    let text = r#"
        [[mcp_servers]]
        label = "notes"
        command = "npx"
        args = ["-y", "notes-server", "--key", "hunter1"]
        env = { LEVEL = "hunter2" }
        env_from = { API_KEY = "NOTES_KEY" }
        inherit_env = ["HOME"]
        cwd = "/srv/notes"
    "#;
    let config = with_variables(text, &[("NOTES_KEY", "hunter3")]).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter"), "{shown}");
    let Endpoint::Command(command) = &config.mcp_servers[0].server.endpoint else {
        panic!()
    };
    assert_eq!(command.program.as_os_str(), "npx");
    assert_eq!(command.args.len(), 4);
    assert_eq!(command.inherit_env, ["HOME"]);
    assert!(command.env.contains_key("API_KEY") && command.env.contains_key("LEVEL"));

    assert_eq!(
        message(text, &[]),
        "pillion.toml:7: mcp_servers[0].env_from.API_KEY: the environment variable NOTES_KEY is not set"
    );
    let both = text.replace("LEVEL =", "API_KEY =");
    assert_eq!(
        message(&both, &[("NOTES_KEY", "hunter3")]),
        "pillion.toml:7: mcp_servers[0].env_from.API_KEY: API_KEY is also set: set only one of \
         the two"
    );
    let strayed = format!("{SERVER}env_from = {{ API_KEY = \"NOTES_KEY\" }}");
    assert_eq!(
        message(&strayed, &[("NOTES_KEY", "hunter3")]),
        "pillion.toml:1: mcp_servers[0]: 'env' is only allowed with a 'command', not with a 'url'"
    );
}

#[test]
fn a_bad_entry_of_mcp_servers_names_its_key_and_line() {
    let cases = [
        (
            format!("{SERVER}\n[[mcp_servers]]\nlabel = \"b\"\nurl = 5"),
            "pillion.toml:7: mcp_servers[1].url: ",
        ),
        (
            format!("{SERVER}tool_prefx = \"\""),
            "pillion.toml:4: mcp_servers[0].tool_prefx: unknown field",
        ),
        (
            format!("{SERVER}enabled = 1"),
            "pillion.toml:4: mcp_servers[0].enabled: invalid type: integer `1`, expected a boolean",
        ),
        (
            format!("{SERVER}rate_limit = {{ per_hour = 0 }}"),
            "pillion.toml:4: mcp_servers[0].rate_limit.per_hour: ",
        ),
        (
            "\n[[mcp_servers]]\nlabel = \"a\"".to_owned(),
            "pillion.toml:2: mcp_servers[0]: A server needs exactly one of 'url' and 'command'",
        ),
        (
            format!("{SERVER}{SERVER}"),
            "pillion.toml:5: mcp_servers[1].label: the label 'a' is used by two servers",
        ),
        (
            "mcp_servers = 5".to_owned(),
            "pillion.toml:1: mcp_servers: expected an array of tables",
        ),
    ];
    for (text, expected) in cases {
        check_message(&text, &[], expected);
    }
}

#[test]
fn h2_a_bad_entry_of_models_names_its_key_and_line() {
    let cases = [
        (
            "tools = { function_calling = true, enabled_tool = [\"calculator\"] }",
            "pillion.toml:6: models[1].tools.enabled_tool: unknown field `enabled_tool` \
             (did you mean `enabled_tools`?), expected one of `function_calling`, `mcp`, `enabled_tools`",
        ),
        (
            "active = true",
            "pillion.toml:6: models[1].active: unknown field `active`, expected one of `id`, ",
        ),
        (
            "tools = { function_calling = \"yes\" }",
            "pillion.toml:6: models[1].tools.function_calling: invalid type: string \"yes\", \
             expected a boolean",
        ),
        (
            "tools = { enabled_tools = \"calculator\" }",
            "pillion.toml:6: models[1].tools.enabled_tools: invalid type: ",
        ),
    ];
    for (line, expected) in cases {
        let text = format!("[[models]]\nid = \"a\"\n\n[[models]]\nid = \"b\"\n{line}");
        check_message(&text, &[], expected);
    }
    check_message(
        "[[models]]\nid = ' '",
        &[],
        "pillion.toml:2: models[0].id: ",
    );
    let error = message("[[models]]\nlabel = \"a\"", &[]);
    assert!(error.ends_with("missing field `id`"), "{error}");
}

#[test]
fn l1_secrets_come_from_variables_and_are_never_shown() {
    let text = format!(
        "{SERVER}authentication = {{ type = \"bearer\", token_env = \"MY_TOKEN\" }}\nheaders_env = {{ X-Extra = \"EXTRA\" }}"
    );
    let variables = [("MY_TOKEN", "hunter2"), ("EXTRA", "hunter3")];
    let config = with_variables(&text, &variables).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter"), "{shown}");

    assert_eq!(
        message(&text, &variables[..1]),
        "pillion.toml:5: mcp_servers[0].headers_env.X-Extra: the environment variable EXTRA is not set"
    );
    assert_eq!(
        message(&text, &[]),
        "pillion.toml:4: mcp_servers[0].authentication.token_env: the environment variable MY_TOKEN is not set"
    );
    let both = text.replace("token_env", "token = \"hunter2\", token_env");
    assert_eq!(
        message(&both, &variables),
        "pillion.toml:4: mcp_servers[0].authentication.token_env: token is also set: set only one \
         of the two"
    );

    for misplaced in [
        "authentication = \"hunter2\"",
        "authentication = { type = \"bearer\", token = [\"hunter2\"] }",
        "authentication = { type = \"bearer\", token = { a = \"hunter2\" } }",
        "headers = \"hunter2\"",
        "headers = { x = [\"hunter2\"] }",
        "headers_env = \"hunter2\"",
        "headers_env = { x = [\"hunter2\"] }",
        "args = \"hunter2\"",
        "args = [5, { a = \"hunter2\" }]",
        "env = \"hunter2\"",
        "env = { x = [\"hunter2\"] }",
        "env_from = { x = [\"hunter2\"] }",
    ] {
        let error = message(&format!("{SERVER}{misplaced}"), &[]);
        let start = "pillion.toml:4: mcp_servers[0].";
        assert!(error.starts_with(start), "{error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}

#[test]
fn l1_a_token_for_providers_has_to_be_in_a_variable() {
    let text = format!("{SERVER}native = {{ token_env = \"DICE\" }}");
    let config = with_variables(&text, &[("DICE", "hunter2")]).unwrap();
    let native = config.mcp_servers[0].settings.native.as_ref().unwrap();
    assert!(native.token.is_some());
    assert!(!format!("{config:?}").contains("hunter2"));
    assert_eq!(
        message(&text, &[]),
        "pillion.toml:4: mcp_servers[0].native.token_env: the environment variable DICE is not set"
    );
    let error = message(&format!("{SERVER}native = {{ token = \"hunter2\" }}"), &[]);
    let start = "pillion.toml:4: mcp_servers[0].native.token: unknown field";
    assert!(error.starts_with(start), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn l1_the_vault_accepts_one_key() {
    let both = "[vault]\nkey_file = \"/a\"\nkey_env = \"B\"";
    check_message(both, &[], "pillion.toml:3: vault.key_env: ");
    let config = with_variables("", &[("PILLION__VAULT__KEY_FILE", "/a")]).unwrap();
    assert_eq!(config.vault.key_file, Some("/a".into()));
    assert_eq!(config.vault.key_env, None);
}

#[test]
fn a_missing_or_doubled_character_never_removes_a_restriction_silently() {
    let text = "[approvals]\npolicy = \"always-ask\"\n[tools.calculator]\n\
        require_approval = \"always\"\n[socket]\nallow_users = [\"root\"]\n[mcp]\npin = \"block\"\n";
    let restrictions = |config: &Config| {
        let approvals = config.executor_config().approvals;
        let (has_rules, pin) = (config.socket.has_rules(), config.mcp.pin);
        format!("{approvals:?} {has_rules} {pin:?}")
    };
    let expected = restrictions(&parse(text));
    let mut accepted = 0;
    for (start, letter) in text.char_indices() {
        let (before, after) = (&text[..start], &text[start + letter.len_utf8()..]);
        for changed in [
            format!("{before}{after}"),
            format!("{before}{letter}{letter}{after}"),
            format!("{before}x{after}"),
        ] {
            let Ok(config) = with_variables(&changed, &[]) else {
                continue;
            };
            accepted += 1;
            let is_same = restrictions(&config) == expected;
            let has_warning = !config.warnings(|_| None).is_empty();
            assert!(is_same || has_warning, "{changed}");
        }
    }
    assert!(accepted > 0);
}
