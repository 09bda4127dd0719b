//! MCP servers that are added and changed while the sidecar runs (F1 to F3, L1, I4).

mod changes;
mod configuration;
mod connections;
mod credentials;
mod policies;
mod races;
mod resources;
mod users;

use crate::http::Reply;
use crate::prelude::*;

const SERVERS: &str = "/api/v1/servers";

fn ask(daemon: &Daemon, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let path = format!("{SERVERS}{path}");
    daemon.send(method, &path, "", body.as_bytes())
}

/// Adds a server, which has to succeed. Returns the server.
fn add(daemon: &Daemon, server: &Value) -> Value {
    let reply = ask(daemon, "POST", "", server);
    assert_eq!(reply.status, 201, "{}", reply.json());
    let shown = reply.json()["server"].clone();
    let id = shown["id"].text();
    assert_contains!(reply.head, &format!("location: {SERVERS}/{id}"));
    shown
}

/// Starts a server, and a daemon to which the server is added as `far`.
fn with_echo() -> (McpServer, Daemon) {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    add(&daemon, &json!({"name": "far", "url": far.url}));
    (far, daemon)
}

/// Changes a server, which has to succeed. Returns the server.
fn change(daemon: &Daemon, method: &str, path: &str, body: &Value) -> Value {
    let reply = ask(daemon, method, path, body);
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()["server"].clone()
}

/// Sends a request that has to be rejected. Returns status, code and message.
fn rejection(daemon: &Daemon, method: &str, path: &str, body: &Value) -> (u16, String, String) {
    let reply = ask(daemon, method, path, body);
    let failure = reply.json();
    let text = |key: &str| failure[key].text().to_owned();
    assert_json!(failure["success"], false);
    (reply.status, text("error_code"), text("error"))
}

fn servers(daemon: &Daemon) -> Vec<Value> {
    let list = ask(daemon, "GET", "", &Value::Null).json();
    let servers = list["servers"].items().clone();
    assert_eq!(list["total"], servers.len());
    servers
}

fn names(daemon: &Daemon) -> Vec<String> {
    let servers = servers(daemon).into_iter();
    servers
        .map(|server| server["name"].text().to_owned())
        .collect()
}

fn call(daemon: &Daemon, tool: &str) -> bool {
    let client = daemon.client();
    let response = client.execute(tool, &json!({}), &Caller::default());
    response.unwrap().is_success()
}
