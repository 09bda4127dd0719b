//! Behavior of `pillion mcp` that requires a terminal.

use pillion_testkit::Reply;

use super::*;
use crate::terminal::Terminal;

/// Starts a server of 2026-07-28 that requests a name before it answers a call.
fn asking_server() -> FakeMcp {
    FakeMcp::builder(Dialect::PlainHttp)
        .on(
            "server/discover",
            fixed(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})),
        )
        .on("tools/call", |params| {
            if let Some(response) = params.get("inputResponses") {
                let text = response["who"].to_string();
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

/// Calls a tool at a terminal and types. Returns what the terminal shows.
fn type_at(server: &FakeMcp, keys: &str, arguments: &str, pause: Duration) -> String {
    let mut terminal = Terminal::run(&format!("mcp call {} roll {arguments}", server.url));
    tokio::task::block_in_place(|| {
        terminal.shows("  string: ");
        std::thread::sleep(pause);
        terminal.types(keys);
        terminal.end().1
    })
}

fn respond(server: &FakeMcp) -> Value {
    let calls = server.requests.calls("tools/call");
    calls.last().unwrap().json()["params"]["inputResponses"]["who"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_fills_in_a_form() {
    let server = asking_server();
    let shown = type_at(&server, "x\nBob\n\ny\n", "", Duration::ZERO);
    assert_eq!(
        respond(&server),
        json!({"action": "accept", "content": {"name": "Bob", "size": "m"}}),
        "{shown}"
    );
    assert_contains!(shown, "Who\\u{1b}[2J rolls?", "2) m", "optional [m]: ");
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
        assert_eq!(respond(&server), json!({"action": action}), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_for_an_answer_does_not_count_for_the_timeout() {
    let server = asking_server();
    let shown = type_at(&server, "Bob\n\n\n", "--timeout 2", Duration::from_secs(3));
    assert_eq!(respond(&server)["action"], "accept", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_no_question_is_asked() {
    let server = asking_server();
    let output = pillion(&["mcp", "call", &server.url, "roll"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let reported = String::from_utf8(output.stderr).unwrap();
    assert_contains!(reported, "elicitation/create");
    assert_ends_with!(reported, " (denied)\n");
}
