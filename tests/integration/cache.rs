//! Cached results, by configuration and by the TTL of a server.

use crate::prelude::*;

fn server() -> McpServer {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    McpServer::start(json!([tool("echo"), tool("fresh")]))
}

fn start(server: &McpServer, more: &str) -> Daemon {
    let toml = server_entry("far", &server.url, more);
    let daemon = Daemon::with_config(&toml);
    daemon.tools();
    daemon
}

/// Makes a call that has to succeed. Returns its metadata.
fn call(daemon: &Daemon, tool: &str, user: &str, arguments: &Value) -> Value {
    let caller = Caller::default().user(user);
    let outcome = daemon.client().run_tool(tool, arguments, &caller);
    assert!(outcome.success, "{outcome:?}");
    json!(outcome.metadata)
}

#[test]
fn f4_a_result_is_cached_for_its_user_in_every_interface_and_marked_in_the_call_log() {
    let server = server();
    let daemon = start(&server, "[tools.far_echo]\ncache_ttl_ms = 60000\n");
    let arguments = json!({"a": 1});
    let is_cached = |user: &str| call(&daemon, "far_echo", user, &arguments)["cached"].clone();
    assert_eq!(is_cached("alice"), Value::Null);
    let again = call(&daemon, "far_echo", "alice", &arguments);
    assert_eq!(again["cached"], true);
    assert_eq!(server.count("tools/call"), 1);
    assert_eq!(is_cached("bob"), Value::Null);
    assert_eq!(server.count("tools/call"), 2);

    let record = daemon.record(&again["record_id"]);
    assert_eq!(record["cached"], true);
    assert_eq!(record["status"], "success");
    assert_eq!(daemon.recorded("?user=bob")[0]["cached"], false);
    let line = "pillion_result_cache_lookups_total{outcome=\"hit\"} 1";
    assert_contains!(daemon.get("/metrics").text(), line);
}

#[test]
fn i3_a_cached_result_of_a_server_is_complete_for_mcp_clients() {
    let server = server();
    let rule = "[tools.far_echo]\ncache_ttl_ms = 60000\ncache_scope = \"public\"\n";
    let daemon = start(&server, rule);
    let params = json!({"name": "echo", "arguments": {"a": 1}});
    let first = ask(&daemon.socket, "tools/call", params.clone());
    let second = ask(&daemon.socket, "tools/call", params);
    assert_eq!(server.count("tools/call"), 1);
    let expected = json!({"echo": {"a": 1}});
    assert_eq!(first["result"]["structuredContent"], expected);
    assert_eq!(first, second);
}

#[test]
fn the_ttl_of_a_server_is_honored_unless_disabled() {
    let server = server();
    let daemon = start(&server, "");
    call(&daemon, "far_fresh", "alice", &json!({}));
    let again = call(&daemon, "far_fresh", "bob", &json!({}));
    assert_eq!(again["cached"], true);
    assert_eq!(server.count("tools/call"), 1);
    call(&daemon, "far_echo", "alice", &json!({}));
    call(&daemon, "far_echo", "alice", &json!({}));
    assert_eq!(server.count("tools/call"), 3);

    let daemon = start(&server, "[cache]\nhonor_servers = false\n");
    call(&daemon, "far_fresh", "alice", &json!({}));
    let again = call(&daemon, "far_fresh", "alice", &json!({}));
    assert_eq!(again["cached"], Value::Null);
}
