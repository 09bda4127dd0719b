//! `pillion chat` at a terminal.

use std::sync::mpsc;

use pillion_testkit::Reply;

use super::*;
use crate::terminal::Terminal;

fn chat(daemon: &Daemon, message: &str) -> Terminal {
    Terminal::run(&format!(
        "chat --socket {} '{message}'",
        daemon.socket.display()
    ))
}

/// Returns everything that the terminal showed until the end of the chat, which must succeed if
/// `well` is set.
fn end(terminal: Terminal, well: bool) -> String {
    let (ended_well, text) = terminal.end();
    assert_eq!(ended_well, well, "{text}");
    text
}

const QUESTION: &str = r#"Run calculator {"expression":"6 * 7"}? [y/N] "#;
const ALWAYS: &str = "[tools.calculator]\nrequire_approval = \"always\"\n";

fn runs(daemon: &Daemon, tool: &str) -> usize {
    let calls = daemon.recorded("?status=success");
    calls.iter().filter(|call| call["toolName"] == tool).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g3_h6_running_calls_are_shown_and_a_yes_at_the_terminal_approves_a_call() {
    let (release, released) = mpsc::sync_channel::<()>(1);
    let released = Mutex::new(released);
    let far = FakeMcp::builder(Dialect::StreamableJson)
        .on(
            "tools/list",
            fixed(json!({"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]})),
        )
        .on("tools/call", move |_| {
            // Waits until the test has checked the output, or has failed.
            let _ = tokio::task::block_in_place(|| released.lock().unwrap().recv());
            Reply::result(&json!({"content": [{"type": "text", "text": "slept"}]}))
        })
        .start();
    let llm = FakeLlm::start([
        LlmResponse::call("far_slow", &json!({})),
        calculator(),
        LlmResponse::text("It is 42."),
    ])
    .await;
    let more = format!(
        "{ALWAYS}[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         [[models]]\nid = \"both\"\nprovider = \"fake\"\ntools = {{ function_calling = true, mcp = true }}\n",
        far.url
    );
    let daemon = Daemon::with_config(&config(&llm, &more));
    tokio::task::block_in_place(|| {
        let mut terminal = chat(&daemon, "Go");
        terminal.shows("· far_slow {}");
        assert!(!terminal.text().contains("far_slow:"), "it runs");
        release.send(()).unwrap();
        terminal.shows("= far_slow: slept");
        terminal.shows(QUESTION);
        assert_eq!(runs(&daemon, "calculator"), 0, "the call is not approved");
        terminal.types("y\n");
        let text = end(terminal, true);
        let after = text.split_once(QUESTION).unwrap().1;
        let (result, response) = (after.find("= calculator: 42"), after.find("It is 42."));
        assert!(result.is_some() && result < response, "{text}");
        assert_eq!(runs(&daemon, "calculator"), 1);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_the_question_at_the_terminal_shows_hidden_characters() {
    let hidden = json!({"expression": "6\u{202e} *\u{200b} 7\u{9b}2J\u{e0061}"});
    let call = LlmResponse::call("calculator", &hidden);
    let llm = FakeLlm::start([call, LlmResponse::text("As you wish.")]).await;
    let daemon = Daemon::with_config(&config(&llm, ALWAYS));
    tokio::task::block_in_place(|| {
        let mut terminal = chat(&daemon, "Go");
        terminal.shows(r#"{"expression":"6\u{202e} *\u{200b} 7\u{9b}2J\u{e0061}"}? [y/N] "#);
        terminal.types("n\n");
        let text = end(terminal, true);
        let is_hidden = |c| matches!(c, '\u{202e}' | '\u{200b}' | '\u{9b}' | '\u{e0061}');
        assert!(!text.contains(is_hidden), "{text:?}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_no_at_the_terminal_denies_the_call_and_the_chat_continues() {
    // An empty line does not approve.
    for keys in ["n\n", "\n"] {
        let llm = FakeLlm::start([calculator(), LlmResponse::text("As you wish.")]).await;
        let daemon = Daemon::with_config(&config(&llm, ALWAYS));
        tokio::task::block_in_place(|| {
            let mut terminal = chat(&daemon, "Go");
            terminal.shows(QUESTION);
            terminal.types(keys);
            assert_contains!(end(terminal, true), "As you wish.");
            assert_eq!(runs(&daemon, "calculator"), 0);
        });
        let reported = llm.bodies()[1]["messages"][2]["content"].clone();
        assert_contains!(reported.text(), "denied");
    }
}
