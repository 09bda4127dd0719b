use super::*;

#[test]
fn f2_a_server_can_be_connected_before_the_first_call() {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    let added = add(
        &daemon,
        &json!({"name": "far", "url": far.url, "retryAttempts": 0}),
    );
    assert_eq!(added["status"], "disconnected");
    assert_eq!(far.count("tools/list"), 0);
    let connected = change(&daemon, "POST", "/far/connect", &Value::Null);
    assert_json!(connected["status"], "connected");
    assert_json!(connected["toolCount"], 1);
    assert!(connected["lastConnectedAt"].is_string(), "{connected}");
    assert_eq!(far.count("tools/list"), 1);
    far.set_mood(Mood::Ill);
    let failed = change(&daemon, "POST", "/far/connect", &Value::Null);
    assert_eq!(failed["status"], "error");
    assert_contains!(failed["error"].text(), "500");
    far.set_mood(Mood::Well);
    // The server is connected at once, even if it has failed just before.
    let connected = change(&daemon, "POST", "/far/connect", &Value::Null);
    assert_eq!(connected["status"], "connected");
}

#[test]
fn f2_a_disconnected_server_is_not_used_until_it_is_connected() {
    let (far, daemon) = with_echo();
    assert!(call(&daemon, "far_echo"));
    let shown = change(&daemon, "POST", "/far/disconnect", &Value::Null);
    assert_json!(shown["status"], "disconnected");
    assert_json!(shown["enabled"], true);
    let (listed, called) = (far.count("tools/list"), far.count("tools/call"));
    let rejected = || {
        let client = daemon.client();
        let request = client.request(route::EXECUTE_TOOL, ["far_echo"]);
        let response = request.send_json(&json!({})).unwrap();
        let response: Value = serde_json::from_slice(response.body()).unwrap();
        (
            response["result"]["error"].clone(),
            response["result"]["error_code"].clone(),
        )
    };
    let expected = (json!("Not connected to server"), json!("unavailable"));
    assert_eq!(rejected(), expected);
    assert!(daemon.offers("far_echo"));
    let list = ask(&daemon, "GET", "/far/tools", &Value::Null).json();
    let text = "Not connected to server";
    assert_eq!(list["unavailable_servers"][0]["error"], text);
    let list = ask(&daemon, "GET", "/far/resources", &Value::Null).json();
    assert_eq!(
        list["unavailable_servers"][0]["error"],
        "Not connected to server"
    );
    // Another change does not connect the server.
    add(
        &daemon,
        &json!({"name": "other", "url": "http://127.0.0.1:9/mcp", "enabled": false}),
    );
    assert_eq!(rejected(), expected);
    assert_eq!(servers(&daemon)[0]["status"], "disconnected");
    assert_eq!(
        (far.count("tools/list"), far.count("tools/call")),
        (listed, called)
    );
    for again in ["/far/connect", "/far/reconnect"] {
        change(&daemon, "POST", "/far/disconnect", &Value::Null);
        change(&daemon, "POST", "/far/disconnect", &Value::Null);
        change(&daemon, "POST", again, &Value::Null);
        assert!(call(&daemon, "far_echo"), "{again}");
        assert_eq!(servers(&daemon)[0]["status"], "connected");
    }
}

#[test]
fn f2_a_disabled_server_is_neither_connected_nor_read() {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    add(
        &daemon,
        &json!({"name": "far", "url": far.url, "enabled": false}),
    );
    for (method, path) in [
        ("POST", "connect"),
        ("POST", "disconnect"),
        ("GET", "resources"),
        ("GET", "resources/read?uri=memo://one"),
    ] {
        let (status, code, error) =
            rejection(&daemon, method, &format!("/far/{path}"), &Value::Null);
        assert_eq!((status, code.as_str()), (409, "unavailable"), "{path}");
        assert_eq!(error, "Server 'far' is not in use: the server is disabled");
        let (status, _, error) = rejection(&daemon, method, &format!("/no/{path}"), &Value::Null);
        assert_eq!(
            (status, error.as_str()),
            (404, "Server not found: 'no'"),
            "{path}"
        );
    }
    assert_eq!(far.count("initialize"), 0);
}
