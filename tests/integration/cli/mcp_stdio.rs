//! `pillion mcp-stdio`: the MCP server for a client that starts it as a program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::program::{eventually, pillion, pillion_path, run, stderr, stdout};

/// Runs it with these lines for its input, to the end.
fn exchange(arguments: &[&str], lines: &[&str]) -> Output {
    let mut child = start(arguments);
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    child.wait_with_output().unwrap()
}

fn start(arguments: &[&str]) -> Child {
    let mut command = pillion(&[&["mcp-stdio"], arguments].concat());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
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
fn both_eras_are_spoken_and_what_was_asked_is_answered_before_the_end() {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}}});
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
        "params": {"name": "calculator", "arguments": {"expression": "6*7"}}});
    let mut stateless = call.clone();
    stateless["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let output = exchange(&[], &[&hello.to_string(), &call.to_string()]);
    let answers = messages(&output);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    let called = with_id(&answers, &json!("c"));
    assert_eq!(called["result"]["content"][0]["text"], "42");
    assert!(called["result"].get("resultType").is_none());

    let output = exchange(&[], &[&stateless.to_string()]);
    let called = with_id(&messages(&output), &json!("c"));
    assert_eq!(called["result"]["content"][0]["text"], "42");
    assert_eq!(called["result"]["resultType"], "complete");
}

#[test]
fn what_is_no_message_is_answered_by_an_error_and_ends_nothing() {
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let list = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
    let output = exchange(&[], &["{", "", "[]", "\u{fffd}", list, ping]);
    let answers = messages(&output);
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| answer["error"]["code"].clone())
        .collect();
    assert_eq!(codes[..2], [json!(-32700), json!(-32600)], "{answers:?}");
    assert_eq!(
        with_id(&answers, &json!(3))["error"]["message"],
        "Begin with initialize"
    );
    assert_eq!(with_id(&answers, &json!(2))["result"], json!({}));
}

#[test]
fn our_own_client_uses_it_in_every_revision() {
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
    let mut child = start(&[]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}}});
    writeln!(input, "{hello}").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("2025-11-25"), "{line}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    eventually("it has ended", || child.try_wait().unwrap().is_some());
    assert!(child.wait().unwrap().success());
}

#[test]
fn h2_a_model_is_one_of_the_configuration() {
    let output = exchange(&["--model", "nope"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert_eq!(told.lines().last(), Some("pillion: Unknown model: nope"));
}
