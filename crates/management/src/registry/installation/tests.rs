use super::*;

fn server(members: &Value) -> RegistryServer {
    let mut json = json!({"name": "io.github.ada/weather", "version": "1.0.0"});
    let object = json.as_object_mut().unwrap();
    object.extend(members.as_object().cloned().unwrap());
    serde_json::from_value(json).unwrap()
}

fn section(commands: &[&str]) -> RegistrySection {
    RegistrySection {
        allowed_commands: commands.iter().map(|&command| command.to_owned()).collect(),
        ..RegistrySection::default()
    }
}

/// Returns the policy for the URLs of a registry on another host.
fn policy() -> EgressPolicy {
    EgressPolicy::default().for_urls_from(&"https://registry.example/".parse().unwrap())
}

fn plan_remote_of(remote: &Value) -> Result<InstallPlan, InstallError> {
    let server = server(&json!({ "remotes": [remote] }));
    InstallPlan::new(&server, InstallMethod::Remote(0), &section(&[]), &policy())
}

fn plan_package_of(package: &Value) -> Result<InstallPlan, InstallError> {
    let server = server(&json!({ "packages": [package] }));
    let section = section(&["npx", "/opt/uv/uvx"]);
    InstallPlan::new(&server, InstallMethod::Package(0), &section, &policy())
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

#[test]
fn a_remote_becomes_a_disabled_and_pinned_server() {
    let plan = plan_remote_of(&json!({
        "type": "streamable-http",
        "url": "https://{tenant}.mcp.example/{tenant}",
        "variables": {"tenant": {"description": "Your tenant", "default": "demo"}},
        "headers": [
            {"name": "Authorization", "value": "Bearer {key}", "isSecret": true,
             "variables": {"key": {"isRequired": true}}},
            {"name": "X-Mode", "choices": ["fast", "exact"]},
            {"name": "X-Client", "value": "literal {braces}"},
        ],
    }))
    .unwrap();
    let labels: Vec<_> = plan.fields().iter().map(|field| &*field.label).collect();
    assert_eq!(labels, ["tenant (URL)", "key (Authorization)", "X-Mode"]);
    let flags: Vec<_> = plan
        .fields()
        .iter()
        .map(|field| (field.is_required, field.is_secret))
        .collect();
    assert_eq!(flags, [(true, false), (true, true), (false, false)]);
    assert!(plan.address().starts_with("https://{tenant (URL)}.mcp."));
    let members = plan
        .server_members("weather", &texts(&["ada", "$(id) {x}", ""]), &policy())
        .unwrap();
    let expected = json!({
        "url": "https://ada.mcp.example/ada",
        "transport": "streamable_http",
        "headers": {"Authorization": "Bearer $(id) {x}", "X-Client": "literal {braces}"},
        "name": "weather",
        "description": "",
        "enabled": false,
        "pin": "block",
        "newTools": "block",
    });
    assert_eq!(Value::Object(members), expected);
    let fault = |values: &[&str]| match plan.server_members("a", &texts(values), &policy()) {
        Err(InstallError::Value { index, .. }) => Some(index),
        _ => None,
    };
    assert_eq!(fault(&["", "key", ""]), Some(0));
    assert_eq!(fault(&["ada", "", ""]), Some(1));
    assert_eq!(fault(&["ada", "a\r\nb: c", ""]), Some(1));
    assert_eq!(fault(&["ada", "key", "slow"]), Some(2));
    let constants = plan.constants();
    assert_eq!(constants, [("X-Client", "literal {braces}".to_owned())]);
    let moved = plan.server_members("a", &texts(&["127.0.0.1/", "key", ""]), &policy());
    assert!(matches!(moved, Err(InstallError::Url(_))), "{moved:?}");
}

#[test]
fn only_safe_urls_of_remotes_are_accepted() {
    for url in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://mcp.example/",
        "http://127.0.0.1:6379/",
        "http://localhost:6379/",
        "https://a.localhost./",
        "https://169.254.169.254/latest",
        "https://{unknown}.example/",
        "https://mcp\u{2024}example/",
        "https://mcp.example\\.evil.example/",
        "https://mcp.exa\tmple/",
        "",
    ] {
        let plan = plan_remote_of(&json!({"type": "sse", "url": url}));
        assert!(plan.is_err(), "{url}");
    }
    let local = EgressPolicy::default();
    let server = server(&json!({"remotes": [{"type": "sse", "url": "http://127.0.0.1:1/"}]}));
    let method = InstallMethod::Remote(0);
    assert!(InstallPlan::new(&server, method, &section(&[]), &local).is_ok());
    let host = json!({
        "type": "sse", "url": "https://a.example/",
        "headers": [{"name": "hOST", "value": "b.example"}],
    });
    assert!(plan_remote_of(&host).is_err());
    let secret = json!({
        "type": "sse", "url": "https://a.example/?key={key}",
        "variables": {"key": {"isSecret": true}},
    });
    assert!(plan_remote_of(&secret).is_err());
}

#[test]
fn a_package_runs_only_with_an_allowed_runner() {
    let package = |kind: &str| {
        json!({
            "registryType": kind, "identifier": "weather", "version": "1.2.3",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "named", "name": "--port", "default": "80"},
                {"type": "named", "name": "--quiet", "value": ""},
                {"type": "positional", "value": "$(id); {dir}",
                 "variables": {"dir": {"isRequired": true}}},
            ],
            "environmentVariables": [{"name": "API_KEY", "isSecret": true}],
        })
    };
    let plan = plan_package_of(&package("npm")).unwrap();
    assert!(plan.is_program());
    let members = plan
        .server_members("weather", &texts(&["", "/tmp", "s3cret"]), &policy())
        .unwrap();
    assert_eq!(members["command"], "npx");
    let arguments = json!(["--yes", "weather@1.2.3", "--quiet", "$(id); /tmp"]);
    assert_eq!(members["args"], arguments);
    assert_eq!(members["env"], json!({"API_KEY": "s3cret"}));
    assert_eq!(members["enabled"], false);
    let plan = plan_package_of(&package("pypi")).unwrap();
    assert!(
        plan.address()
            .starts_with("/opt/uv/uvx weather@1.2.3 --port {--port}")
    );
    assert!(plan_package_of(&package("oci")).is_err());
    let server = server(&json!({ "packages": [package("npm")] }));
    let method = InstallMethod::Package(0);
    let error = InstallPlan::new(&server, method, &section(&["uvx"]), &policy()).unwrap_err();
    assert_eq!(error, InstallError::RunnerNotAllowed { runner: "npx" });
    assert!(error.to_string().contains("registry.allowed_commands"));
}

#[test]
fn a_package_cannot_change_what_the_runner_runs() {
    for (member, value) in [
        ("identifier", json!("https://evil.example/a.tgz")),
        ("identifier", json!("github:evil/a")),
        ("identifier", json!("--call=id")),
        ("identifier", json!("../a")),
        ("version", json!("latest")),
        ("version", json!("^1.0.0")),
        ("version", Value::Null),
        ("runtimeHint", json!("sh")),
        ("registryBaseUrl", json!("https://npm.evil.example")),
        (
            "runtimeArguments",
            json!([{"type": "named", "name": "-c", "value": "id"}]),
        ),
        (
            "environmentVariables",
            json!([{"name": "PATH", "value": "/tmp"}]),
        ),
        (
            "environmentVariables",
            json!([{"name": "npm_config_registry"}]),
        ),
        ("environmentVariables", json!([{"name": "LD_PRELOAD"}])),
        ("environmentVariables", json!([{"name": "https_proxy"}])),
        (
            "environmentVariables",
            json!([{"name": "NODE_TLS_REJECT_UNAUTHORIZED", "value": "0"}]),
        ),
        ("environmentVariables", json!([{"name": "A=B"}])),
        (
            "packageArguments",
            json!([{"type": "positional", "isSecret": true}]),
        ),
        ("transport", json!({"type": "sse"})),
    ] {
        let mut package = json!({
            "registryType": "npm", "identifier": "@ada/weather", "version": "1.2.3",
            "runtimeHint": "npx", "runtimeArguments": [{"type": "positional", "value": "-y"}],
        });
        assert!(plan_package_of(&package).is_ok());
        package[member] = value;
        let plan = plan_package_of(&package);
        assert!(
            matches!(plan, Err(InstallError::Unsupported(_))),
            "{member}: {plan:?}"
        );
    }
}

#[test]
fn everything_that_is_installed_can_be_shown() {
    let header = |value: String| {
        let headers = json!([{"name": "X-A", "value": value}]);
        plan_remote_of(&json!({"type": "sse", "url": "https://a.example/", "headers": headers}))
    };
    assert!(header("x".repeat(1_000)).is_ok());
    let error = header("x".repeat(MAX_SHOWN_BYTES)).unwrap_err();
    assert!(matches!(error, InstallError::Unsupported(_)), "{error}");
    let option = format!("--{}", "x".repeat(500));
    let argument = json!({
        "type": "named", "name": option, "value": "{a}", "variables": {"a": {}},
    });
    let package = json!({
        "registryType": "npm", "identifier": "weather", "version": "1.2.3",
        "packageArguments": [argument],
    });
    let plan = plan_package_of(&package).unwrap();
    assert_eq!(plan.fields()[0].label.len(), MAX_LABEL_BYTES);
    assert!(plan.address().contains(&option));
}

#[test]
fn the_digest_changes_with_the_entry() {
    let digest = |url: &str| {
        let plan = plan_remote_of(&json!({"type": "sse", "url": url})).unwrap();
        plan.digest().to_owned()
    };
    assert_eq!(digest("https://a.example/"), digest("https://a.example/"));
    assert_ne!(digest("https://a.example/"), digest("https://b.example/"));
}
