//! The call log (F4): what was called is there afterwards, whatever happens to the sidecar.

use std::process::Output;

use pillion_client::{Caller, Client};
use serde_json::{Value, json};

use crate::mcp_server::{McpServer, Mood};
use crate::program::{Daemon, eventually, run, stderr, stdout};

fn calls(daemon: &Daemon, arguments: &[&str]) -> Output {
    let socket = daemon.socket.to_str().unwrap();
    run(&[&["calls", "--socket", socket], arguments].concat(), &[])
}

fn listed(daemon: &Daemon, filter: &[&str]) -> Vec<Value> {
    let output = calls(daemon, &[&["list", "--json"], filter].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    answer["calls"].as_array().unwrap().clone()
}

fn calculate(daemon: &Daemon, user: &str, arguments: &Value) {
    let caller = Caller::default().user(user);
    let client = Client::builder(&daemon.socket).build();
    client.execute("calculator", arguments, &caller).unwrap();
}

#[test]
fn f4_calls_are_recorded_and_found_again_after_a_restart() {
    let mut daemon = Daemon::start();
    calculate(
        &daemon,
        "alice",
        &json!({"expression": "2 + 2", "api_key": "hunter2"}),
    );
    calculate(&daemon, "bob", &json!({"expression": "1 / 0"}));
    daemon.kill();
    let daemon = daemon.again();
    let found = listed(&daemon, &[]);
    let seen: Vec<_> = found
        .iter()
        .map(|call| {
            (
                call["user"].as_str().unwrap(),
                call["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(seen, [("bob", "error"), ("alice", "success")]);
    assert_eq!(
        found[1]["arguments"],
        json!({"expression": "2 + 2", "api_key": "[redacted]"})
    );
    assert_eq!(found[1]["result"], json!("4"));
    assert_eq!(found[0]["errorCode"], json!("invalid_input"));
    assert_eq!(listed(&daemon, &["--user", "alice"]), found[1..]);
    assert_eq!(listed(&daemon, &["--status", "error"]), found[..1]);
    let id = found[0]["id"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&stdout(&calls(&daemon, &["show", id]))).unwrap();
    assert_eq!(shown, found[0]);
    let table = stdout(&calls(&daemon, &["stats"]));
    let line = table.lines().nth(1).unwrap();
    assert!(
        line.contains("calculator") && line.contains("50.0 %"),
        "{table}"
    );
}

#[test]
fn f4_a_call_that_a_crash_cut_off_is_interrupted() {
    let server = McpServer::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]));
    let config = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"",
        server.url
    );
    let mut daemon = Daemon::with_config(&config, &[]);
    let client = Client::builder(&daemon.socket).build();
    client.list_tools(None).unwrap();
    server.set_mood(Mood::Asleep);
    let caller = std::thread::spawn(move || {
        drop(client.execute("far_echo", &json!({}), &Caller::default()));
    });
    eventually("the call is recorded", || {
        listed(&daemon, &["--status", "running"]).len() == 1
    });
    daemon.kill();
    caller.join().unwrap();
    let daemon = daemon.again();
    let found = listed(&daemon, &[]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["status"], json!("interrupted"));
    assert_eq!(found[0]["serverId"], json!("far"));
}

#[test]
fn i2_what_makes_no_sense_is_refused_with_a_code() {
    let daemon = Daemon::start();
    for (arguments, why) in [
        (&["show", "nothing"][..], "not_found"),
        (&["list", "--after", "nothing"], "invalid_input"),
        (&["list", "--from", "yesterday"], "invalid_input"),
    ] {
        let output = calls(&daemon, arguments);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
