//! What only happens on a terminal, which `script` of util-linux brings.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use pillion_testkit::{Dialect, FakeMcp, Reply};
use serde_json::{Value, json};

use crate::program::{eventually, pillion};

/// A server of 2026-07-28 that asks for a name before it answers a call.
fn asking_server() -> FakeMcp {
    FakeMcp::builder(Dialect::PlainHttp)
        .on("server/discover", |_| {
            Reply::result(
                &json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            )
        })
        .on("tools/call", |params| {
            if let Some(answer) = params.get("inputResponses") {
                let text = answer["who"].to_string();
                return Reply::result(&json!({"content": [{"type": "text", "text": text}]}));
            }
            Reply::result(
                &json!({"resultType": "input_required", "inputRequests": {"who": {
                    "method": "elicitation/create",
                    "params": {"message": "Who\u{1b}[2J rolls?", "requestedSchema": {
                        "type": "object", "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "minLength": 2},
                            "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
                        },
                    }},
                }}}),
            )
        })
        .start()
}

/// Calls a tool on a terminal and types; gives what the terminal shows.
async fn type_at(server: &FakeMcp, keys: &'static str, arguments: &str) -> String {
    let command = pillion(&["mcp", "call", &server.url, "roll"]);
    let program = command.get_program().to_str().unwrap();
    let line = format!(
        "stty -echo; {program} mcp call {} roll {arguments}",
        server.url
    );
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = script.stdin.take().unwrap();
    eventually("the server has asked", || {
        !server.requests.calls("tools/call").is_empty()
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    let ended = tokio::task::spawn_blocking(move || {
        stdin.write_all(keys.as_bytes()).unwrap();
        let output = script.wait_with_output().unwrap();
        drop(stdin);
        String::from_utf8(output.stdout).unwrap()
    });
    ended.await.unwrap()
}

fn answer(server: &FakeMcp) -> Value {
    let calls = server.requests.calls("tools/call");
    calls.last().unwrap().json()["params"]["inputResponses"]["who"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_fills_in_a_form() {
    let server = asking_server();
    let shown = type_at(&server, "x\nBob\n\ny\n", "").await;
    assert_eq!(
        answer(&server),
        json!({"action": "accept", "content": {"name": "Bob", "size": "m"}}),
        "{shown}"
    );
    assert!(shown.contains("Who\u{fffd}[2J rolls?"), "{shown}");
    assert!(shown.contains("2) m"), "{shown}");
    assert!(shown.contains("optional [m]: "), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_answer_declines_and_ctrl_c_cancels_the_question_alone() {
    for (keys, action) in [
        ("\n", "decline"),
        ("Bob\n\nn\n", "decline"),
        ("\u{3}", "cancel"),
    ] {
        let server = asking_server();
        let shown = type_at(&server, keys, "").await;
        assert_eq!(answer(&server), json!({"action": action}), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_for_an_answer_does_not_count() {
    let server = asking_server();
    let shown = type_at(&server, "Bob\n\n\n", "--timeout 600ms").await;
    assert_eq!(answer(&server)["action"], "accept", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_nobody_is_asked() {
    let server = asking_server();
    let output = pillion(&["mcp", "call", &server.url, "roll"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("elicitation/create"), "{told}");
    assert!(told.ends_with(" (denied)\n"), "{told}");
}
