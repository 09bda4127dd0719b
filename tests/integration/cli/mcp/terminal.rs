//! What only happens on a terminal, which `script` of util-linux brings.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
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
fn type_at(server: &FakeMcp, keys: &str, arguments: &str, pause: Duration) -> String {
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
    let (mut stdin, mut stdout) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut bytes) {
            seen.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    });
    let text = || String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
    tokio::task::block_in_place(|| {
        eventually("the first field is asked for", || {
            text().contains("  string: ")
        });
        std::thread::sleep(pause);
        stdin.write_all(keys.as_bytes()).unwrap();
        script.wait().unwrap();
        reader.join().unwrap();
    });
    text()
}

fn answer(server: &FakeMcp) -> Value {
    let calls = server.requests.calls("tools/call");
    calls.last().unwrap().json()["params"]["inputResponses"]["who"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_fills_in_a_form() {
    let server = asking_server();
    let shown = type_at(&server, "x\nBob\n\ny\n", "", Duration::ZERO);
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
        let shown = type_at(&server, keys, "", Duration::ZERO);
        assert_eq!(answer(&server), json!({"action": action}), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_for_an_answer_does_not_count() {
    let server = asking_server();
    let shown = type_at(&server, "Bob\n\n\n", "--timeout 2", Duration::from_secs(3));
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
