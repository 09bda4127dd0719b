//! Lines of the log in the text format: no client and no server can forge a line, or control the
//! terminal that shows the log.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::hostile_server::{self, HostileReply};
use crate::prelude::*;
use crate::program::Guarded;
use crate::routes::mcp::ACCEPT;

/// Texts that would break a line, or control a terminal, each before the word `FORGED`.
const HOSTILE: [&str; 7] = [
    "x\n2026-01-01T00:00:00.000000Z  INFO FORGED",
    "x\r\nFORGED",
    "x\u{1b}[2J\u{1b}]0;FORGED\u{7}",
    "x\u{9b}2JFORGED",
    "x\u{2028}FORGED\u{2029}",
    "x\u{202e}FORGED\u{2066}",
    "x\u{85}\u{b}\u{c}\u{0}\u{7f}FORGED",
];

/// Starts a server that responds to every request with an error that has this message.
fn failing_server(message: &'static str) -> String {
    hostile_server::start(move |request| {
        let error = json!({"code": -32000, "message": message});
        HostileReply::rpc(request, &format!(r#""error":{error}"#))
    })
}

#[test]
fn l2_no_client_and_no_server_forges_a_log_line() {
    let servers = HOSTILE.iter().enumerate().map(|(number, message)| {
        let url = failing_server(message);
        format!("[[mcp_servers]]\nlabel = \"far{number}\"\nurl = \"{url}\"\n")
    });
    let toml = servers.collect::<String>();
    let daemon = Daemon::with_variables(&toml, &[("PILLION__LOG__FORMAT", "text")]);
    let socket = &daemon.socket;
    socket.get("/api/v1/tools/");
    for hostile in HOSTILE {
        let calls = json!({"calls": [
            {"id": hostile, "name": "calculator", "arguments": {"expression": "1"}},
            {"id": hostile, "name": "roll_dice", "arguments": {"notation": hostile}},
        ]});
        let reply = socket.post("/api/v1/tools/batch-execute", calls.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        // The response has the ID as it was sent.
        assert_eq!(reply.json()["results"][0]["id"], hostile);
        let user = hostile.replace(|c: char| c.is_ascii_control(), "");
        let headers = format!("x-pillion-user: {user}\r\nx-request-id: {user}\r\n");
        let body = br#"{"expression": "1"}"#;
        socket.post_with("/api/v1/tools/execute/calculator", &headers, body);
    }
    eventually("the failures are logged", || {
        daemon.count_logged("Failed to list MCP tools") >= HOSTILE.len()
    });
    let log = daemon.log();
    assert_contains!(log, "FORGED");
    for line in log.lines() {
        let is_own = line.starts_with("20") && line.contains('Z') && line.as_bytes()[10] == b'T';
        assert!(is_own && !line.starts_with("2026-01-01"), "{line:?}");
    }
    let hidden = |c: char| c != '\n' && (c.is_control() || pillion_core::is_hidden(c));
    let hidden: Vec<_> = log.chars().filter(|c| hidden(*c)).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    // The command line shows the texts escaped in the same way.
    let socket = socket.to_str().unwrap();
    for arguments in [["servers", "list"], ["tools", "list"]] {
        let output = run(&[&arguments[..], &["--socket", socket]].concat(), &[]);
        for line in stderr(&output).lines() {
            let is_forged = line.starts_with("FORGED") || line.starts_with("2026-01-01");
            assert!(!is_forged, "{line:?}");
            assert!(!line.contains(pillion_core::is_hidden), "{line:?}");
        }
    }
}

#[test]
fn l2_ids_of_clients_have_at_most_256_bytes() {
    let daemon = Daemon::start();
    let batch = |length: usize| {
        let id = "i".repeat(length);
        let call = json!({"id": id, "name": "calculator", "arguments": {"expression": "1"}});
        let body = json!({"calls": [call]}).to_string();
        daemon.post("/api/v1/tools/batch-execute", body)
    };
    assert_eq!(batch(256).status, 200);
    for length in [257, 900_000] {
        let rejected = batch(length);
        assert_eq!(rejected.status, 400, "{length}");
        let problem = rejected.json();
        assert_json!(problem["error_code"], "invalid_input");
        assert_contains!(problem["detail"].to_string(), "at most 256 bytes");
    }
    for (header, length) in [
        ("x-pillion-user", 257),
        ("x-pillion-channel", 257),
        ("idempotency-key", 256),
        ("x-pillion-approval", 257),
    ] {
        let headers = format!("{header}: {}\r\n", "h".repeat(length));
        let body = br#"{"expression": "1"}"#;
        let target = "/api/v1/tools/execute/calculator";
        let rejected = daemon.post_with(target, &headers, body);
        assert_eq!(rejected.status, 400, "{header}: {rejected:?}");
    }
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let headers = format!("{ACCEPT}mcp-session-id: {}\r\n", session.id);
    let ping = json!({"jsonrpc": "2.0", "id": "m".repeat(257), "method": "ping"}).to_string();
    let rejected = daemon.post_with("/mcp", &headers, ping.as_bytes());
    let error = rejected.json();
    assert_json!(error["error"]["code"], -32600);
    assert_contains!(error["error"]["message"].to_string(), "at most 256 bytes");
    // An ID of more than 256 bytes does not appear in the log.
    let max_length = daemon.log().lines().map(str::len).max();
    assert!(max_length < Some(2_000), "{max_length:?}");
}

#[test]
fn a_reader_of_the_log_that_stands_still_stops_no_request_and_no_exit() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("run/pillion.sock");
    let (mut reader, writer) = std::io::pipe().unwrap();
    let store = directory.path().join("pillion.db");
    let mut sidecar = Guarded::spawn(
        pillion(&["serve", "--socket"])
            .arg(&socket)
            .env("XDG_STATE_HOME", directory.path())
            .env("PILLION__STORE__LOCATION", store)
            .env("PILLION__LOG__FORMAT", "json")
            .stderr(writer),
    );
    eventually("the sidecar listens", || {
        UnixStream::connect(&socket).is_ok()
    });
    // The requests log about 300 KiB, of which the pipe takes 64 KiB.
    for _ in 0..300 {
        let response = socket.post("/api/v1/tools/execute/get_time", "{}");
        assert_eq!(response.status, 200);
    }
    let id = Pid::from_raw(i32::try_from(sidecar.id()).unwrap());
    kill(id, Signal::SIGTERM).unwrap();
    let status = eventually_some("the sidecar has ended", || sidecar.try_wait().unwrap());
    assert!(status.success());
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    assert!(log.len() > 32_000, "{}", log.len());
    let (whole, _cut) = log.rsplit_once('\n').unwrap();
    for line in whole.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn no_log_contains_a_line_of_the_password_file_of_postgres() {
    let directory = tempfile::tempdir().unwrap();
    let passwords = directory.path().join("pgpass");
    std::fs::write(&passwords, "127.0.0.1:9:pillion:bob hunter2-hunter2\n").unwrap();
    std::fs::set_permissions(&passwords, Permissions::from_mode(0o600)).unwrap();
    let config = directory.path().join("pillion.toml");
    let toml = "[store]\nlocation = \"postgres://bob@127.0.0.1:9/pillion\"\n";
    std::fs::write(&config, toml).unwrap();
    let variables = [
        ("PGPASSFILE", passwords.to_str().unwrap()),
        ("PILLION__LOG__FILTER", "trace"),
    ];
    let serve = ["serve", "--config", config.to_str().unwrap()];
    let socket = directory.path().join("s").display().to_string();
    let arguments = [&serve[..], &["--socket", &socket]].concat();
    let output = run(&arguments, &variables);
    let log = stderr(&output);
    assert_contains!(log, "127.0.0.1:9 cannot be opened");
    assert_lacks!(log, "hunter2");
}
