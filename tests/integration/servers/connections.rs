use pillion_client::Client;
use pillion_wire::route;
use serde_json::{Value, json};

use super::{add, ask, call, change, echo, refusal, servers, tools};
use crate::mcp_server::Mood;
use crate::program::Daemon;

#[test]
fn f2_a_server_can_be_connected_before_the_first_call() {
    let far = echo();
    let daemon = Daemon::start();
    let added = add(
        &daemon,
        &json!({"name": "far", "url": far.url, "retryAttempts": 0}),
    );
    assert_eq!(added["status"], "disconnected");
    assert_eq!(far.count("tools/list"), 0);
    let connected = change(&daemon, "POST", "/far/connect", &Value::Null);
    assert_eq!(
        (&connected["status"], &connected["toolCount"]),
        (&json!("connected"), &json!(1))
    );
    assert!(connected["lastConnectedAt"].is_string(), "{connected}");
    assert_eq!(far.count("tools/list"), 1);
    far.set_mood(Mood::Ill);
    let failed = change(&daemon, "POST", "/far/connect", &Value::Null);
    assert_eq!(failed["status"], "error");
    assert!(
        failed["error"].as_str().unwrap().contains("500"),
        "{failed}"
    );
    far.set_mood(Mood::Well);
    // Connects at once, however recently the server failed.
    let connected = change(&daemon, "POST", "/far/connect", &Value::Null);
    assert_eq!(connected["status"], "connected");
}

#[test]
fn f2_a_disconnected_server_is_not_used_until_it_is_connected() {
    let far = echo();
    let daemon = Daemon::start();
    add(&daemon, &json!({"name": "far", "url": far.url}));
    assert!(call(&daemon, "far_echo"));
    let shown = change(&daemon, "POST", "/far/disconnect", &Value::Null);
    assert_eq!(
        (&shown["status"], &shown["enabled"]),
        (&json!("disconnected"), &json!(true))
    );
    let (listed, called) = (far.count("tools/list"), far.count("tools/call"));
    let refused = || {
        let client = Client::new(&daemon.socket);
        let request = client.request(route::EXECUTE_TOOL, ["far_echo"]);
        let answer = request.send_json(&json!({})).unwrap();
        let answer: Value = serde_json::from_slice(answer.body()).unwrap();
        (
            answer["result"]["error"].clone(),
            answer["result"]["error_code"].clone(),
        )
    };
    let expected = (json!("Not connected to server"), json!("unavailable"));
    assert_eq!(refused(), expected);
    assert!(tools(&daemon).contains(&"far_echo".to_owned()));
    let list = ask(&daemon, "GET", "/far/tools", &Value::Null).json();
    assert_eq!(
        list["unavailable_servers"][0]["error"],
        "Not connected to server"
    );
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
    assert_eq!(refused(), expected);
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
    let far = echo();
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
        let (status, code, error) = refusal(&daemon, method, &format!("/far/{path}"), &Value::Null);
        assert_eq!((status, code.as_str()), (409, "unavailable"), "{path}");
        assert_eq!(error, "Server 'far' is not in use: it is disabled");
        let (status, _, error) = refusal(&daemon, method, &format!("/no/{path}"), &Value::Null);
        assert_eq!(
            (status, error.as_str()),
            (404, "Server not found"),
            "{path}"
        );
    }
    assert_eq!(far.count("initialize"), 0);
}
