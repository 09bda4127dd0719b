//! Requests that use an old configuration while servers are added and removed.

use super::*;

/// A call whose head the sidecar has read, so that its configuration is fixed; the body follows
/// later.
struct Held(UnixStream);

impl Held {
    fn begin(daemon: &Daemon) -> Self {
        let mut stream = daemon.connect();
        let head = "POST /api/v1/tools/execute/nothing_of_that_name HTTP/1.1\r\nhost: x\r\n\
                    connection: close\r\ncontent-length: 2\r\n\r\n{";
        stream.write_all(head.as_bytes()).unwrap();
        // The sidecar does not report that it has read the head.
        std::thread::sleep(Duration::from_millis(300));
        Self(stream)
    }

    /// Sends the body of the call, which then searches for its tool at all servers that its
    /// configuration contains.
    fn go_on(mut self) {
        self.0.write_all(b"}").unwrap();
        let mut response = String::new();
        self.0.read_to_string(&mut response).unwrap();
        assert_contains!(response, "not_found");
    }
}

#[test]
fn f2_a_running_request_does_not_restore_the_tools_of_a_removed_server() {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    add(
        &daemon,
        &json!({"name": "far", "url": far.url, "pin": "warn"}),
    );
    assert!(daemon.offers("far_echo"));
    far.set_tools(
        json!([{"name": "echo", "description": "new", "inputSchema": {"type": "object"}}]),
    );
    change(&daemon, "POST", "/far/reconnect", &Value::Null);
    daemon.tools();
    // After the acceptance, the list is requested again.
    let accepted = daemon.post("/api/v1/pins/far/echo/accept", "");
    assert_eq!(accepted.status, 200, "{accepted:?}");
    let held = Held::begin(&daemon);
    assert_eq!(ask(&daemon, "DELETE", "/far", &Value::Null).status, 200);
    held.go_on();
    assert!(
        !daemon
            .tool_names()
            .iter()
            .any(|name| name.starts_with("far"))
    );
}

#[test]
fn f3_two_configurations_do_not_register_tools_at_the_same_time() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let far = McpServer::start(json!([tool("a")]));
    let daemon = Daemon::with_config("[mcp]\nrefresh_after_ms = 1\n");
    add(&daemon, &json!({"name": "far", "url": far.url}));
    assert!(daemon.offers("far_a"));
    let held = Held::begin(&daemon);
    // Another configuration with the same server.
    add(
        &daemon,
        &json!({"name": "other", "url": far.url, "enabled": false}),
    );
    far.set_tools(json!([tool("a"), tool("b")]));
    held.go_on();
    far.set_tools(json!([tool("a")]));
    eventually("removed tools stay removed", || {
        let tools = daemon.tool_names();
        tools.contains(&"far_a".to_owned()) && !tools.contains(&"far_b".to_owned())
    });
}
