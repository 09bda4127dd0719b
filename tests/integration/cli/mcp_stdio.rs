//! `pillion mcp-stdio`: the MCP server for a client that starts it as a program.

mod bridge;
mod standalone;

use std::process::{Child, ChildStdin};
use std::sync::mpsc;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::prelude::*;
use crate::program::pillion_path;

/// The environment variable for a store in memory.
const MEMORY: (&str, &str) = ("PILLION__STORE__LOCATION", "memory");

/// The timeout for a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client with the program that serves it.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    incoming: mpsc::Receiver<Value>,
    requests: u64,
}

impl Client {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, incoming) = mpsc::sync_channel(10_000);
        thread::spawn(move || {
            for line in output.lines() {
                let message = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            incoming,
            requests: 0,
        }
    }

    /// Starts a client of the sidecar at `socket`, or with `--standalone` of a process with this
    /// store.
    fn for_sidecar(socket: &Path, store: &Path, arguments: &[&str]) -> Self {
        let mut command = pillion(&[&["mcp-stdio"], arguments].concat());
        command.arg("--socket").arg(socket);
        Self::start(command.env("PILLION__STORE__LOCATION", store))
    }

    /// Performs the handshake of 2025-11-25 with these client capabilities.
    fn initialize(&mut self, capabilities: &Value) {
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let response = self.request("initialize", &hello);
        assert_json!(response["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_ref().unwrap(), "{message}").unwrap();
    }

    /// Sends a request. Returns its ID.
    fn send_request(&mut self, method: &str, params: &Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Returns the next message.
    fn receive(&mut self) -> Value {
        self.incoming.recv_timeout(MESSAGE_TIMEOUT).unwrap()
    }

    /// Returns the next message that `fits` accepts, and skips other messages.
    fn receive_until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.receive();
            if fits(&message) {
                return message;
            }
        }
    }

    fn response_to(&mut self, id: u64) -> Value {
        self.receive_until(|message| message["id"] == id && message.get("method").is_none())
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send_request(method, params);
        self.response_to(id)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a call. Returns its ID.
    fn send_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.send_request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", &json!({}));
        let names = listed["result"]["tools"].texts("name").into_iter();
        names.map(str::to_owned).collect()
    }

    /// Closes the input, waits for the exit, and returns the remaining messages.
    fn end(mut self) -> Vec<Value> {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
        self.incoming.iter().collect()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn text(response: &Value) -> &str {
    let text = response["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{response}"))
}

/// Runs the program with these lines as input until it exits.
fn exchange(arguments: &[&str], lines: &[&str]) -> Output {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut command = pillion(&[&["mcp-stdio"], arguments].concat());
    run_with_input(command.env(MEMORY.0, MEMORY.1), input)
}

fn messages(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    let lines = stdout(output);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn with_id(messages: &[Value], id: &Value) -> Value {
    let found = messages.iter().find(|message| message["id"] == *id);
    found.unwrap_or_else(|| panic!("{messages:?}")).clone()
}

#[test]
fn both_protocol_eras_work_and_pending_requests_are_answered_before_the_end() {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}}});
    let call = call_request("c", "calculator", json!({"expression": "6*7"}));
    let mut stateless = call.clone();
    stateless["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let output = exchange(&[], &[&hello.to_string(), &call.to_string()]);
    let responses = messages(&output);
    assert_eq!(responses[0]["result"]["protocolVersion"], "2025-06-18");
    let called = with_id(&responses, &json!("c"));
    assert_eq!(called["result"]["content"][0]["text"], "42");
    assert!(called["result"].get("resultType").is_none());

    let output = exchange(&[], &[&stateless.to_string()]);
    let called = with_id(&messages(&output), &json!("c"));
    assert_eq!(called["result"]["content"][0]["text"], "42");
    assert_eq!(called["result"]["resultType"], "complete");
}

#[test]
fn an_invalid_message_gets_an_error_and_ends_nothing() {
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let list = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
    let output = exchange(&[], &["{", "", "[]", "\u{fffd}", list, ping]);
    let responses = messages(&output);
    let codes: Vec<_> = responses
        .iter()
        .map(|response| response["error"]["code"].clone())
        .collect();
    assert_eq!(codes[..2], [json!(-32700), json!(-32600)], "{responses:?}");
    let expected = "The session is not initialized: send initialize first";
    assert_eq!(with_id(&responses, &json!(3))["error"]["message"], expected);
    assert_eq!(with_id(&responses, &json!(2))["result"], json!({}));
}

#[test]
fn pillions_client_works_in_every_revision() {
    let program = pillion_path().to_str().unwrap();
    for version in [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    ] {
        let arguments = [
            "mcp",
            "call",
            "--env",
            "PILLION__STORE__LOCATION=memory",
            "--protocol-version",
            version,
            "calculator",
            "expression=6*7",
            "--",
            program,
            "mcp-stdio",
        ];
        let output = run(&arguments, &[]);
        assert!(output.status.success(), "{version}: {}", stderr(&output));
        let printed = stdout(&output);
        assert!(printed.contains("42"), "{version}: {printed}");
    }
}

#[test]
fn it_ends_at_a_signal() {
    let mut client = Client::start(pillion(&["mcp-stdio"]).env(MEMORY.0, MEMORY.1));
    client.initialize(&json!({}));
    let id = Pid::from_raw(client.child.id().cast_signed());
    kill(id, Signal::SIGTERM).unwrap();
    let status = eventually_some("it has ended", || client.child.try_wait().unwrap());
    assert!(status.success());
}

#[test]
fn h2_the_model_has_to_be_configured() {
    let reported = failure(&exchange(&["--model", "nope"], &[]), 2);
    assert_eq!(
        reported.lines().last(),
        Some("pillion: Unknown model: nope")
    );
}
