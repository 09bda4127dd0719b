use super::*;
use serde_json::json;

/// Parses the configuration of a server `x` with these settings.
fn config(mut settings: serde_json::Value) -> Result<ServerConfig, serde_json::Error> {
    settings["label"] = "x".into();
    serde_json::from_value(settings)
}

/// Parses the configuration of a server `x` at `https://x.example/` with these settings.
fn remote(mut settings: serde_json::Value) -> Result<ServerConfig, serde_json::Error> {
    settings["url"] = "https://x.example/".into();
    config(settings)
}

#[test]
fn e8_every_credential_becomes_its_header_and_wins_over_custom_ones() {
    for (authentication, name, expected) in [
        (json!({"type": "none"}), "authorization", "custom"),
        (
            json!({"type": "bearer", "token": "t"}),
            "authorization",
            "Bearer t",
        ),
        (json!({"type": "api-key", "key": "k"}), "x-api-key", "k"),
        (
            json!({"type": "api-key", "key": "k", "header": "X-K"}),
            "x-k",
            "k",
        ),
        (
            json!({"type": "basic", "username": "user", "password": "pass"}),
            "authorization",
            "Basic dXNlcjpwYXNz",
        ),
    ] {
        let server = remote(json!({
            "authentication": authentication,
            "headers": {"Authorization": "custom", "X-Tenant": "t1"},
        }));
        let headers = server.unwrap().build_header_map().unwrap();
        assert_eq!(headers["x-tenant"], "t1");
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert_eq!(headers[name], expected);
    }
}

#[test]
fn e8_headers_that_frame_a_message_cannot_be_set() {
    let server = |name: &str| remote(json!({"headers": {name: "5"}})).unwrap();
    for name in ["Content-Length", "transfer-encoding", "Connection", "TE"] {
        let error = server(name).validate().unwrap_err();
        let text = format!("Header '{name}' is set by the client and cannot be configured");
        assert_eq!(error.to_string(), text);
    }
    for name in ["Host", "X-Content-Length", "Accept-Encoding"] {
        server(name).validate().unwrap();
    }
    let keyed = remote(json!({
        "authentication": {"type": "api-key", "key": "k", "header": "Content-Length"},
    }));
    let error = keyed.unwrap().validate().unwrap_err();
    assert!(matches!(error, ServerConfigError::ConnectionHeader { .. }));
}

#[test]
fn l1_debug_and_errors_show_no_secret() {
    let server = config(json!({
        "url": "https://x.example/mcp?token=hush1",
        "authentication": {"type": "basic", "username": "u", "password": "hush2"},
        "headers": {"X-Secret": "hush3"},
    }))
    .unwrap();
    assert!(!format!("{server:?}").contains("hush"));
    let bad = remote(json!({"headers": {"X-Bad": "hush\n"}}));
    let error = bad.unwrap().validate().unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("Invalid header 'X-Bad': "), "{message}");
    let error = config(json!({"url": "https://u:hush@x.example/"})).unwrap_err();
    assert!(!error.to_string().contains("hush"));
}

#[test]
fn e7_a_command_is_read_and_its_secrets_are_not_shown() {
    let server = config(json!({
        "command": "/opt/tools/server", "args": ["--key", "hush1"],
        "env": {"API_KEY": "hush2"}, "inherit_env": ["HOME"], "cwd": "/srv",
    }))
    .unwrap();
    assert_eq!(server.validate(), Ok(()));
    assert_eq!(server.transport_kind(), TransportKind::Stdio);
    assert_eq!(server.display_url(), "stdio:server");
    assert_eq!(server.url(), None);
    let shown = format!("{server:?}");
    assert!(!shown.contains("hush"), "{shown}");
    let Endpoint::Command(command) = server.endpoint else {
        panic!()
    };
    assert_eq!(command.args, ["--key", "hush1"]);
    assert_eq!(command.inherit_env, ["HOME"]);
    let shown = format!("{command:?}");
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn e7_an_unknown_transport_is_named() {
    let with = |transport: &str| remote(json!({"transport": transport}));
    for transport in TransportKind::ALL {
        assert_eq!(json!(transport), json!(transport.name()));
        assert_eq!(with(transport.name()).unwrap().transport, transport);
    }
    for other in ["sse", "legacy-sse"] {
        assert_eq!(with(other).unwrap().transport, TransportKind::LegacySse);
    }
    let error = with("pigeon").unwrap_err().to_string();
    let expected = "Unknown transport: pigeon, expected one of auto, streamable_http, legacy_sse, \
                    post_sse, get_sse, http, websocket, stdio";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn e7_invalid_command_settings_are_rejected() {
    for (key, value) in [
        ("command", json!("")),
        ("command", json!("a\u{0}b")),
        ("args", json!(["a\u{0}b"])),
        ("env", json!({"A=B": "x"})),
        ("env", json!({"": "x"})),
        ("env", json!({"A": "hush\u{0}"})),
        ("inherit_env", json!(["A=B"])),
        ("cwd", json!("")),
    ] {
        let mut entry = json!({"command": "server"});
        entry[key] = value;
        let error = config(entry).unwrap().validate().unwrap_err();
        assert!(matches!(error, ServerConfigError::Command { .. }), "{key}");
    }
}

#[test]
fn bad_values_are_rejected_by_name() {
    for (settings, part) in [
        (json!({"url": "not-a-url"}), "Invalid server URL"),
        (json!({}), "exactly one of 'url' and 'command'"),
        (
            json!({"command": "server", "env": {"A": 1}}),
            "expected a string",
        ),
        (json!({"url": "ftp://x.example"}), "Invalid server URL"),
    ] {
        let error = config(settings).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for (settings, part) in [
        (
            json!({"command": "server"}),
            "exactly one of 'url' and 'command'",
        ),
        (json!({"env": {}}), "'env' is only allowed with a 'command'"),
        (json!({"timeout_ms": 0}), "at least 1 ms"),
        (json!({"transport": "pigeon"}), "pigeon"),
        (json!({"color": 1}), "color"),
        (json!({"authentication": {"type": "bearer"}}), "token"),
    ] {
        let error = remote(settings).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
