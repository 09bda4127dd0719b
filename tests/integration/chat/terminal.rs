//! `pillion chat` on a terminal, which `script` of util-linux brings.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use pillion_testkit::{Dialect, FakeLlm, FakeMcp, LlmAnswer, Reply};
use serde_json::json;

use super::{calculator, config};
use crate::http;
use crate::program::{Daemon, eventually, pillion_path};

/// `pillion chat` at a terminal of its own.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    fn chat(daemon: &Daemon, message: &str) -> Self {
        let (program, socket) = (pillion_path().display(), daemon.socket.display());
        let line = format!("stty -echo; {program} chat --socket {socket} '{message}'");
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            script,
            keys,
            shown,
            reader,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn shows(&self, what: &str) {
        eventually(what, || self.text().contains(what));
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// All that it has shown when the chat has ended, well or not.
    fn end(mut self, well: bool) -> String {
        let ended = self.script.wait().unwrap();
        self.reader.join().unwrap();
        let text = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        assert_eq!(ended.success(), well, "{text}");
        text
    }
}

const QUESTION: &str = r#"Run calculator {"expression":"6 * 7"}? [y/N] "#;
const ALWAYS: &str = "[tools.calculator]\nrequire_approval = \"always\"\n";

fn runs(daemon: &Daemon, tool: &str) -> usize {
    let log = http::get(&daemon.socket, "/api/v1/tool-calls/?status=success").json();
    let calls = log["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["toolName"] == tool).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g3_h6_calls_show_while_they_run_and_a_yes_at_the_terminal_lets_one_run() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let far = FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", |_| {
            Reply::result(&json!({"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]}))
        })
        .on("tools/call", move |_| {
            // Until the test has looked, or has failed.
            let _ = tokio::task::block_in_place(|| released.lock().unwrap().recv());
            Reply::result(&json!({"content": [{"type": "text", "text": "slept"}]}))
        })
        .start();
    let llm = FakeLlm::start([
        LlmAnswer::call("far_slow", &json!({})),
        calculator(),
        LlmAnswer::text("It is 42."),
    ])
    .await;
    let more = format!(
        "{ALWAYS}[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         [[models]]\nid = \"both\"\nprovider = \"fake\"\ntools = {{ function_calling = true, mcp = true }}\n",
        far.url
    );
    let daemon = Daemon::with_config(&config(&llm, &more), &[]);
    tokio::task::block_in_place(|| {
        let mut terminal = Terminal::chat(&daemon, "Go");
        terminal.shows("· far_slow {}");
        assert!(!terminal.text().contains("far_slow:"), "it runs");
        release.send(()).unwrap();
        terminal.shows("= far_slow: slept");
        terminal.shows(QUESTION);
        assert_eq!(runs(&daemon, "calculator"), 0, "nobody has said yes");
        terminal.types("y\n");
        let text = terminal.end(true);
        let after = text.split_once(QUESTION).unwrap().1;
        let (result, answer) = (after.find("= calculator: 42"), after.find("It is 42."));
        assert!(result.is_some() && result < answer, "{text}");
        assert_eq!(runs(&daemon, "calculator"), 1);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_no_at_the_terminal_denies_the_call_and_the_chat_goes_on() {
    // A bare line is no yes.
    for keys in ["n\n", "\n"] {
        let llm = FakeLlm::start([calculator(), LlmAnswer::text("As you wish.")]).await;
        let daemon = Daemon::with_config(&config(&llm, ALWAYS), &[]);
        tokio::task::block_in_place(|| {
            let mut terminal = Terminal::chat(&daemon, "Go");
            terminal.shows(QUESTION);
            terminal.types(keys);
            let text = terminal.end(true);
            assert!(text.contains("As you wish."), "{text}");
            assert_eq!(runs(&daemon, "calculator"), 0);
        });
        let told = llm.bodies()[1]["messages"][2]["content"].clone();
        assert!(told.as_str().unwrap().contains("denied"), "{told}");
    }
}
