//! The store's file is deleted while the sidecar runs.

use std::fs;

use serde_json::{Value, json};

use crate::http;
use crate::program::{Daemon, eventually};

fn calculate(daemon: &Daemon) -> Value {
    let path = "/api/v1/tools/execute/calculator";
    let body = json!({"expression": "6 * 7"}).to_string();
    http::post(&daemon.socket, path, body).json()["result"].clone()
}

#[test]
fn f4_no_call_is_acknowledged_while_the_store_file_is_removed() {
    let daemon = Daemon::start();
    assert_eq!(calculate(&daemon)["success"], true);
    assert_eq!(http::get(&daemon.socket, "/readyz").status, 200);
    let file = daemon.directory().join("pillion.db");
    let moved = daemon.directory().join("moved.db");
    fs::rename(&file, &moved).unwrap();
    let refused = calculate(&daemon);
    assert_eq!(refused["success"], false);
    assert_eq!(refused["error_code"], "unavailable", "{refused}");
    let ready = http::get(&daemon.socket, "/readyz");
    assert_eq!(ready.status, 503);
    let ready = ready.json();
    assert_eq!(ready["status"], "store_gone");
    let said = ready["store_error"].as_str().unwrap();
    assert!(
        said.contains("pillion.db' was deleted or replaced"),
        "{said}"
    );
    eventually("the log says so", || {
        daemon
            .log()
            .contains("The store file is missing or was replaced")
    });
    fs::rename(&moved, &file).unwrap();
    assert_eq!(calculate(&daemon)["success"], true);
    assert_eq!(http::get(&daemon.socket, "/readyz").status, 200);
}
