use pillion_testkit::Reply;

use super::*;

#[test]
fn f1_a_new_server_has_the_defaults_and_a_stable_id() {
    let daemon = Daemon::start();
    let new = json!({"name": "far", "url": "http://127.0.0.1:9/mcp"});
    let server = add(&daemon, &new);
    for (key, expected) in [
        ("name", json!("far")),
        ("origin", json!("store")),
        ("transport", json!("auto")),
        ("authentication", json!({"type": "none"})),
        ("handshake", json!("auto")),
        ("protocolVersion", Value::Null),
        ("timeout", json!(30_000)),
        ("retryAttempts", json!(3)),
        ("enabled", json!(true)),
        ("toolPrefix", json!("far_")),
        ("status", json!("disconnected")),
        ("toolCount", json!(0)),
    ] {
        assert_json!(server[key], expected);
    }
    for key in ["createdAt", "updatedAt"] {
        let timestamp = server[key].text();
        assert_starts_with!(timestamp, "20");
        assert_ends_with!(timestamp, "Z");
    }
    assert_eq!(server["id"].text().len(), 36);
    for immutable in ["id", "createdAt"] {
        let (status, code, error) = rejection(&daemon, "PATCH", "/far", &json!({immutable: "x"}));
        assert_eq!((status, code.as_str()), (400, "invalid_input"), "{error}");
    }
}

#[test]
fn f1_invalid_settings_are_rejected_by_key() {
    let daemon = Daemon::start();
    let url = "http://127.0.0.1:9/mcp";
    let long = "n".repeat(101);
    let with = |key: &str, value: Value| {
        let mut server = json!({"name": "far", "url": url});
        server[key] = value;
        server
    };
    let odd = |key: &str, value: &str| with(key, json!(value));
    let authentication = |value: Value| with("authentication", value);
    let length = "name: must have between 1 and 100";
    let reserved = "name: `test` and `refresh` are";
    let control = "name: a name must not contain control characters";
    for (server, expected) in [
        (odd("name", ""), length),
        (odd("name", &long), length),
        (json!({"url": url}), "name: is required"),
        (with("timeout", json!(999)), "timeout: must be between"),
        (with("timeout", json!(300_001)), "timeout: must be between"),
        (odd("timeout", "soon"), "timeout: invalid type"),
        (
            with("retryAttempts", json!(6)),
            "retryAttempts: must be between 0 and 5",
        ),
        (
            with("retryAttempts", json!(-1)),
            "retryAttempts: invalid value",
        ),
        (odd("url", "not-a-url"), "Invalid server URL"),
        (odd("url", "ftp://127.0.0.1/mcp"), "Invalid server URL"),
        (
            odd("url", "https://me:pw@127.0.0.1/"),
            "put them into 'authentication'",
        ),
        (json!({"name": "far"}), "exactly one of 'url' and 'command'"),
        (
            authentication(json!({"type": "bearer"})),
            "authentication: missing field `token`",
        ),
        (
            authentication(json!({"type": "bearer", "token": ""})),
            "authentication: the token is empty",
        ),
        (
            with("headers", json!({"x": 1})),
            "headers: expected an object with string values",
        ),
        (odd("transport", "pigeon"), "transport: Unknown transport: "),
        (
            odd("transport", "websocket"),
            "The transport does not match",
        ),
        (
            odd("toolPrefix", "a b"),
            "toolPrefix: a tool prefix must have at most 128",
        ),
        (
            odd("color", "red"),
            "unknown field `color`, expected one of `name`, `description`, `transport`, `handshake`, \
             `protocolVersion`, `url`, `headers`, `authentication`, `command`, `args`, `env`, \
             `inheritEnv`, `cwd`, `timeout`, `retryAttempts`, `enabled`, `toolPrefix`, \
             `requireApproval`, `pin`, `newTools`, `rateLimit`, `maxConcurrent`, `credential`",
        ),
        (odd("name", "test"), reserved),
        (odd("name", "refresh"), reserved),
        (odd("name", "a\u{202e}b"), control),
        (odd("name", "a\nb"), control),
        (odd("handshake", "always"), "handshake: unknown variant"),
        (
            odd("protocolVersion", "1999-01-01"),
            "protocolVersion: Unknown MCP protocol version '1999-01-01'",
        ),
        (json!([]), "body: expected a JSON object"),
    ] {
        let (status, code, error) = rejection(&daemon, "POST", "", &server);
        assert_eq!((status, code.as_str()), (400, "invalid_input"), "{error}");
        assert!(error.contains(expected), "{server}: {error}");
    }
    for server in [
        with("timeout", json!(1_000)),
        with("timeout", json!(300_000)),
        with("name", json!("n".repeat(100))),
        with("retryAttempts", json!(5)),
    ] {
        let added = add(&daemon, &server);
        let path = format!("/{}", added["id"].text());
        assert_eq!(ask(&daemon, "DELETE", &path, &Value::Null).status, 200);
    }
    assert!(names(&daemon).is_empty());
}

#[test]
fn l1_other_machines_need_https_unless_the_operator_allows_http() {
    let daemon = Daemon::with_config(
        "[servers]\negress = { allow_http = [\"tools.internal\"], allow_private = false }\n",
    );
    let server = |name: &str, url: &str| json!({"name": name, "url": url});
    for url in [
        "http://mcp.example/",
        "https://10.1.2.3/",
        "http://169.254.169.254/",
    ] {
        let (status, _, error) = rejection(&daemon, "POST", "", &server("far", url));
        assert_eq!(status, 400, "{url}: {error}");
        let (status, ..) = rejection(&daemon, "POST", "/test", &server("far", url));
        assert_eq!(status, 400, "{url}");
    }
    add(&daemon, &server("one", "https://mcp.example/"));
    add(&daemon, &server("two", "http://tools.internal/"));
    add(&daemon, &server("three", "http://localhost:1/"));
}

#[test]
fn f1_names_are_unique_and_servers_of_the_file_cannot_be_changed() {
    let far = McpServer::echo();
    let file = detected_entry("near", &far.url, "");
    let daemon = Daemon::with_config(&file);
    add(&daemon, &json!({"name": "far", "url": far.url}));
    for name in ["far", "near"] {
        let (status, code, error) =
            rejection(&daemon, "POST", "", &json!({"name": name, "url": far.url}));
        assert_eq!((status, code.as_str()), (409, "invalid_input"), "{error}");
    }
    let (status, ..) = rejection(&daemon, "PATCH", "/far", &json!({"name": "near"}));
    assert_eq!(status, 409);
    let listed = servers(&daemon);
    assert_eq!(names(&daemon), ["near", "far"]);
    assert_eq!(listed[0]["origin"], "file");
    let id = listed[0]["id"].text();
    for key in ["near", id] {
        assert_eq!(
            ask(&daemon, "GET", &format!("/{key}"), &Value::Null).status,
            200
        );
        let (status, code, error) = rejection(
            &daemon,
            "PATCH",
            &format!("/{key}"),
            &json!({"timeout": 5_000}),
        );
        assert_eq!((status, code.as_str()), (409, "denied"), "{error}");
        assert_contains!(error, "configuration file");
        let (status, ..) = rejection(&daemon, "DELETE", &format!("/{key}"), &Value::Null);
        assert_eq!(status, 409);
    }
    let (status, code, error) = rejection(&daemon, "GET", "/missing", &Value::Null);
    assert_eq!(
        (status, code.as_str(), error.as_str()),
        (404, "not_found", "Server not found: 'missing'")
    );
}

#[test]
fn f1_a_server_of_the_file_takes_precedence_over_a_stored_one() {
    let (far, mut daemon) = with_echo();
    daemon.kill();
    let file = daemon.config_path();
    let other = McpServer::echo();
    std::fs::write(&file, detected_entry("far", &other.url, "")).unwrap();
    let daemon = daemon.again();
    let listed = servers(&daemon);
    assert_eq!(listed[1]["status"], "error");
    assert_contains!(listed[1]["error"].text(), "configuration file has");
    assert!(super::call(&daemon, "far_echo"));
    assert_eq!((far.count("tools/call"), other.count("tools/call")), (0, 1));

    // The command removes the server that can be removed.
    success(
        &crate::program::pillion(&["servers", "remove", "far"])
            .env("PILLION_SOCKET", &daemon.socket)
            .output()
            .unwrap(),
    );
    let listed = servers(&daemon);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["origin"], "file");
}

#[test]
fn the_api_cannot_add_start_or_change_programs() {
    let witness = tempfile::tempdir().unwrap();
    let touched = witness.path().join("touched");
    let file = "[[mcp_servers]]\nlabel = \"near\"\ncommand = \"/bin/false\"\nenabled = false\n";
    let daemon = Daemon::with_config(file);
    let program = json!({
        "name": "p", "command": "/bin/touch", "args": [touched.to_str().unwrap()],
    });
    add(
        &daemon,
        &json!({"name": "far", "url": "http://127.0.0.1:9/mcp"}),
    );
    let stdio = json!({"name": "p", "transport": "stdio", "url": "http://127.0.0.1:9/"});
    for (method, path, body) in [
        ("POST", "", &program),
        ("POST", "/test", &program),
        ("PUT", "/far", &program),
        (
            "PATCH",
            "/far",
            &json!({"url": null, "command": "/bin/touch"}),
        ),
        ("PATCH", "/far", &json!({"env": {"LD_PRELOAD": "x"}})),
        ("POST", "", &stdio),
        ("POST", "/near/test", &Value::Null),
    ] {
        let (status, code, error) = rejection(&daemon, method, path, body);
        assert_eq!(
            (status, code.as_str()),
            (403, "denied"),
            "{method} {path}: {error}"
        );
        assert_contains!(error, "operator");
    }
    assert!(!touched.exists());
    assert_eq!(names(&daemon), ["near", "far"]);
}

#[test]
fn i4_an_unchanged_list_is_not_sent_again() {
    let daemon = Daemon::start();
    let list = |tag: &str| {
        let header = format!("if-none-match: {tag}\r\n");
        daemon.get_with(super::SERVERS, &header)
    };
    let first = list("\"nothing\"");
    assert_eq!(first.status, 200);
    let tag = first
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap()
        .to_owned();
    let again = list(&format!("\"x\", W/{tag}"));
    assert_eq!((again.status, again.body.len()), (304, 0));
    add(
        &daemon,
        &json!({"name": "far", "url": "http://127.0.0.1:9/mcp"}),
    );
    assert_eq!(list(&tag).status, 200);
}

#[test]
fn i4_without_a_store_servers_cannot_be_added() {
    let sidecar = Sidecar::start();
    for (method, path) in [
        ("GET", ""),
        ("POST", ""),
        ("DELETE", "/far"),
        ("POST", "/refresh"),
    ] {
        let path = format!("{}{path}", super::SERVERS);
        let reply = sidecar.send(method, &path, "", b"{}");
        assert_eq!(reply.expect(503)["error_code"], "unavailable");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_protocol_version_and_handshake_can_be_set() {
    let resources = json!({"resources": []});
    let capable = |resources: bool| {
        move |params: &Value| {
            let capabilities = match resources {
                true => json!({"tools": {}, "resources": {}}),
                false => json!({"tools": {}}),
            };
            Reply::result(&json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": capabilities,
                "serverInfo": {"name": "fake", "version": "1"},
            }))
        }
    };
    let start = |has_resources: bool| {
        let resources = resources.clone();
        FakeMcp::builder(Dialect::StreamableJson)
            .on("initialize", capable(has_resources))
            .on("resources/list", move |_| Reply::result(&resources))
            .start()
    };
    let daemon = Daemon::start();
    let methods_sent = |name: &str, server: &FakeMcp, more: Value| {
        let mut entry = json!({"name": name, "url": server.url, "transport": "streamable_http"});
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        let added = add(&daemon, &entry);
        for (key, value) in more.as_object().unwrap() {
            assert_json!(added[key], *value);
        }
        assert_eq!(
            ask(&daemon, "POST", &format!("/{name}/connect"), &json!({})).status,
            200
        );
        let requests = server.requests.all();
        let methods = requests.iter().map(|request| request.rpc_method());
        methods
            .filter(|method| !method.is_empty())
            .collect::<Vec<_>>()
    };
    // The sequence of requests of clients of that revision.
    let old = start(true);
    let pinned = json!({"protocolVersion": "2024-11-05"});
    let expected = [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "resources/list",
    ];
    assert_eq!(methods_sent("old", &old, pinned.clone()), expected);
    let hello = old.requests.calls("initialize");
    assert_eq!(hello[0].json()["params"]["protocolVersion"], "2024-11-05");
    let without = start(false);
    assert_eq!(methods_sent("without", &without, pinned), expected[..3]);
    let newer = start(true);
    let pinned = json!({"protocolVersion": "2025-06-18"});
    assert_eq!(methods_sent("newer", &newer, pinned), expected[..3]);
    let plain = FakeMcp::start(Dialect::PlainHttp);
    let methods = methods_sent(
        "plain",
        &plain,
        json!({"transport": "http", "handshake": "never"}),
    );
    assert_eq!(methods, ["tools/list"]);
}
