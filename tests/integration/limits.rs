//! Limits: what they count outlives the process, and nobody's calls keep another's waiting.

use nix::sys::signal::Signal;
use pillion_client::{Caller, Client};
use pillion_wire::{Answer, Outcome};
use serde_json::json;

use crate::http::get;
use crate::mcp_server::{McpServer, Mood};
use crate::program::{Daemon, eventually};

fn call(socket: &std::path::Path, tool: &str, user: &str) -> Outcome {
    let caller = Caller::default().user(user);
    let client = Client::builder(socket).build();
    let answer = client.execute(tool, &json!({"expression": "1"}), &caller);
    let Ok(Answer::Ran(ran)) = answer else {
        panic!("{answer:?}")
    };
    ran.result
}

fn code(outcome: &Outcome) -> Option<&str> {
    outcome.error_code.as_deref()
}

const LIMITED: &str = "[tools.calculator]\nrate_limit = { per_minute = 3, per_hour = 4 }\n";

#[test]
fn c7_limits_count_on_after_a_crash_and_after_a_stop() {
    let mut daemon = Daemon::with_config(LIMITED, &[]);
    for _ in 0..2 {
        assert!(call(&daemon.socket, "calculator", "alice").success);
    }
    daemon.kill();
    let mut daemon = daemon.again();
    assert!(call(&daemon.socket, "calculator", "alice").success);
    // What was refused does not count.
    for _ in 0..5 {
        let refused = call(&daemon.socket, "calculator", "alice");
        assert_eq!(code(&refused), Some("rate_limited"));
        let wait = refused.metadata["retry_after"].as_u64().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
    assert!(call(&daemon.socket, "calculator", "bob").success);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    let daemon = daemon.again();
    let refused = call(&daemon.socket, "calculator", "alice");
    assert_eq!(code(&refused), Some("rate_limited"));
    for _ in 0..2 {
        assert!(call(&daemon.socket, "calculator", "bob").success);
    }
    let refused = call(&daemon.socket, "calculator", "bob");
    assert_eq!(code(&refused), Some("rate_limited"));
}

#[test]
fn c7_limits_count_on_when_another_sidecar_takes_over() {
    let mut daemon = Daemon::with_config(LIMITED, &[]);
    let socket = daemon.socket.clone();
    // This connection is kept, so that its next call may still come to the old one.
    let caller = Caller::default().user("alice");
    let client = Client::new(&socket);
    let arguments = json!({"expression": "1"});
    client.execute("calculator", &arguments, &caller).unwrap();
    let next = daemon.successor();
    client.execute("calculator", &arguments, &caller).unwrap();
    assert_eq!(daemon.wait().code(), Some(0));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(call(&socket, "calculator", "alice").success);
    let refused = call(&socket, "calculator", "alice");
    assert_eq!(code(&refused), Some("rate_limited"));
    drop(next);
}

#[test]
fn c7_the_limit_of_a_server_survives_a_crash() {
    let server = McpServer::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]));
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         rate_limit = {{ per_day = 1 }}\n",
        server.url
    );
    let mut daemon = Daemon::with_config(&toml, &[]);
    Client::new(&daemon.socket).list_tools(None).unwrap();
    assert!(call(&daemon.socket, "far_echo", "alice").success);
    daemon.kill();
    let daemon = daemon.again();
    Client::new(&daemon.socket).list_tools(None).unwrap();
    let refused = call(&daemon.socket, "far_echo", "alice");
    assert_eq!(code(&refused), Some("rate_limited"));
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn c1_a_full_queue_refuses_and_the_status_shows_it() {
    let server = McpServer::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]));
    let toml = format!(
        "[executor]\nmax_concurrent = 1\nmax_queued = 2\ntimeout_ms = 3000\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n",
        server.url
    );
    let daemon = Daemon::with_config(&toml, &[]);
    Client::new(&daemon.socket).list_tools(None).unwrap();
    server.set_mood(Mood::Asleep);
    let socket = &daemon.socket;
    let calls = |what: &str| get(socket, "/api/v1/status").json()["calls"][what].clone();
    std::thread::scope(|scope| {
        let begin =
            |tool: &'static str, user: &'static str| scope.spawn(move || call(socket, tool, user));
        let running = begin("far_echo", "greedy");
        eventually("it runs", || calls("running") == 1);
        let waiting = [1, 2].map(|count| {
            let waiting = begin("calculator", "greedy");
            eventually("it waits", || calls("queued") == count);
            waiting
        });
        let refused = call(socket, "calculator", "greedy");
        assert_eq!(code(&refused), Some("rate_limited"));
        assert_eq!(refused.metadata["retry_after"], 1);
        let metrics = get(socket, "/metrics");
        let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
        assert!(
            metrics.contains("pillion_tool_calls_running 1\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("pillion_tool_calls_queued 2\n"),
            "{metrics}"
        );
        // Somebody else has room, at the expense of whoever has the most.
        let other = begin("calculator", "alice");
        assert_eq!(code(&running.join().unwrap()), Some("timeout"));
        let ends = waiting.map(|waiting| waiting.join().unwrap());
        let codes: Vec<_> = ends.iter().map(code).collect();
        assert!(codes.contains(&Some("rate_limited")), "{codes:?}");
        // It came later and has time left.
        assert_ne!(code(&other.join().unwrap()), Some("rate_limited"));
    });
}
