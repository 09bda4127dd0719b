//! Limits: counts survive the process, and calls of one source do not delay calls of others.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pillion_client::{Caller, Client};
use pillion_wire::route;
use pillion_wire::{ExecuteResponse, ToolOutcome};
use serde_json::{Value, json};

use crate::http::get;
use crate::mcp_server::{McpServer, Mood};
use crate::program::{Daemon, eventually};

fn call(socket: &std::path::Path, tool: &str, user: &str) -> ToolOutcome {
    let caller = Caller::default().user(user);
    let client = Client::builder(socket).build();
    let answer = client.execute(tool, &json!({"expression": "1"}), &caller);
    let Ok(ExecuteResponse::Executed(ran)) = answer else {
        panic!("{answer:?}")
    };
    ran.result
}

fn code(outcome: &ToolOutcome) -> Option<&str> {
    outcome.error_code.as_deref()
}

const LIMITED: &str = "[tools.calculator]\nrate_limit = { per_minute = 3, per_hour = 4 }\n";

#[test]
fn c7_limit_counts_survive_a_crash_and_a_stop() {
    let mut daemon = Daemon::with_config(LIMITED, &[]);
    for _ in 0..2 {
        assert!(call(&daemon.socket, "calculator", "alice").success);
    }
    daemon.kill();
    let mut daemon = daemon.again();
    assert!(call(&daemon.socket, "calculator", "alice").success);
    // Rejected calls do not count.
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
fn c7_limit_counts_survive_a_takeover() {
    let mut daemon = Daemon::with_config(LIMITED, &[]);
    let socket = daemon.socket.clone();
    // The connection stays open, so that its next call may still reach the old sidecar.
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
    Client::new(&daemon.socket)
        .fetch(route::LIST_TOOLS)
        .unwrap();
    assert!(call(&daemon.socket, "far_echo", "alice").success);
    daemon.kill();
    let daemon = daemon.again();
    Client::new(&daemon.socket)
        .fetch(route::LIST_TOOLS)
        .unwrap();
    let refused = call(&daemon.socket, "far_echo", "alice");
    assert_eq!(code(&refused), Some("rate_limited"));
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn c1_a_hanging_server_delays_neither_other_servers_nor_local_tools() {
    let tools = json!([{"name": "echo", "inputSchema": {"type": "object"}}]);
    let (far, near) = (McpServer::start(tools.clone()), McpServer::start(tools));
    let server = |label: &str, server: &McpServer| {
        let url = &server.url;
        format!(
            "[[mcp_servers]]\nlabel = \"{label}\"\nurl = \"{url}\"\ntransport = \"streamable_http\"\n"
        )
    };
    let toml = format!(
        "[executor]\ntimeout_ms = 15000\n{}max_concurrent = 2\n{}",
        server("far", &far),
        server("near", &near)
    );
    let daemon = Daemon::with_config(&toml, &[]);
    Client::new(&daemon.socket)
        .fetch(route::LIST_TOOLS)
        .unwrap();
    far.set_mood(Mood::Asleep);
    let socket = &daemon.socket;
    let calls = |what: &str| get(socket, "/api/v1/status").json()["calls"][what].clone();
    std::thread::scope(|scope| {
        let hang = || scope.spawn(move || call(socket, "far_echo", "alice"));
        let hanging: Vec<_> = (0..8).map(|_| hang()).collect();
        eventually("two run and the others wait", || {
            (calls("running"), calls("queued")) == (json!(2), json!(6))
        });
        for tool in ["calculator", "near_echo"] {
            for _ in 0..5 {
                assert!(call(socket, tool, "alice").success, "{tool}");
            }
        }
        assert_eq!(calls("running"), 2, "those of the server still run");
        drop(far);
        for call in hanging {
            assert!(!call.join().unwrap().success);
        }
    });
}

/// Returns a schema whose check never finishes.
fn endless() -> Value {
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert("d60".to_owned(), json!({"type": "integer"}));
    json!({"type": "object", "properties": {"expression": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

#[test]
fn c3_endless_argument_checks_delay_no_other_call() {
    let server = McpServer::start(json!([{"name": "hard", "inputSchema": endless()}]));
    let toml = format!(
        "[executor]\ntimeout_ms = 8000\n[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n\
         transport = \"streamable_http\"\n",
        server.url
    );
    let daemon = Daemon::with_config(&toml, &[]);
    Client::new(&daemon.socket)
        .fetch(route::LIST_TOOLS)
        .unwrap();
    let socket = &daemon.socket;
    std::thread::scope(|scope| {
        let hostile: Vec<_> = (0..40)
            .map(|_| scope.spawn(move || call(socket, "far_hard", "mallory")))
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        for _ in 0..10 {
            assert!(call(socket, "calculator", "alice").success);
        }
        let running = hostile.iter().filter(|call| !call.is_finished()).count();
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        assert!(running > 20, "{running}");
        for call in hostile {
            let code = call.join().unwrap().error_code.unwrap();
            let expected = ["timeout", "unavailable", "invalid_input"];
            assert!(expected.contains(&code.as_str()), "{code}");
        }
    });
    assert_eq!(server.count("tools/call"), 0);
}

#[test]
fn c1_a_full_queue_rejects_calls_and_the_status_shows_it() {
    let server = McpServer::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]));
    let toml = format!(
        "[executor]\nmax_concurrent_total = 1\nmax_queued = 2\ntimeout_ms = 3000\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n",
        server.url
    );
    let daemon = Daemon::with_config(&toml, &[]);
    Client::new(&daemon.socket)
        .fetch(route::LIST_TOOLS)
        .unwrap();
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
        // Another user has room, at the expense of the user with the most queued calls.
        let other = begin("calculator", "alice");
        assert_eq!(code(&running.join().unwrap()), Some("timeout"));
        let ends = waiting.map(|waiting| waiting.join().unwrap());
        let codes: Vec<_> = ends.iter().map(code).collect();
        assert!(codes.contains(&Some("rate_limited")), "{codes:?}");
        // The call arrived later and has time left.
        assert_ne!(code(&other.join().unwrap()), Some("rate_limited"));
    });
}

/// Starts a server whose `echo` returns its arguments, and a sidecar with these settings.
fn echoing(settings: &str) -> (McpServer, Daemon) {
    let server = McpServer::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]));
    let toml = format!(
        "{settings}\n[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n\
         transport = \"streamable_http\"\n",
        server.url
    );
    let daemon = Daemon::with_config(&toml, &[]);
    Client::new(&daemon.socket)
        .fetch(route::LIST_TOOLS)
        .unwrap();
    (server, daemon)
}

#[test]
fn c4_a_large_result_can_be_fetched_after_a_crash() {
    let (_server, mut daemon) = echoing("[tools.far_echo]\nmax_result_bytes = 1000\n");
    let caller = Caller::default().user("alice");
    let client = Client::builder(&daemon.socket).build();
    let arguments = json!({"long": "\u{e9}".repeat(50_000)});
    let answer = client.execute("far_echo", &arguments, &caller);
    let Ok(ExecuteResponse::Executed(ran)) = answer else {
        panic!("{answer:?}")
    };
    assert!(ran.result.success, "{ran:?}");
    assert!(ran.result.text.len() < 1_500);
    let stored_result = &ran.result.metadata["stored_result"];
    let url = stored_result["url"].as_str().unwrap();
    assert!(ran.result.text.contains(url), "{}", ran.result.text);

    daemon.kill();
    let daemon = daemon.again();
    let whole = get(&daemon.socket, url);
    assert_eq!(whole.status, 200);
    assert!(
        whole.head.contains("content-type: application/json"),
        "{}",
        whole.head
    );
    assert_eq!(whole.json()["structuredContent"]["echo"], arguments);
    assert_eq!(stored_result["bytes"], whole.body.len());
    let part = crate::http::send(&daemon.socket, "GET", url, "range: bytes=2-8\r\n", b"");
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[2..9]));
    let range = format!("content-range: bytes 2-8/{}", whole.body.len());
    assert!(part.head.contains(&range), "{}", part.head);
    let beyond = "range: bytes=9999999-\r\n";
    let beyond = crate::http::send(&daemon.socket, "GET", url, beyond, b"");
    assert_eq!(beyond.status, 416);
    let unknown = get(
        &daemon.socket,
        "/api/v1/results/00000000000000000000000000000000",
    );
    assert_eq!(
        (unknown.status, unknown.json()["error_code"].as_str()),
        (404, Some("not_found"))
    );
    // A result within the limit is unchanged.
    let client = Client::builder(&daemon.socket).build();
    client.fetch(route::LIST_TOOLS).unwrap();
    assert!(
        call(&daemon.socket, "far_echo", "alice")
            .metadata
            .get("stored_result")
            .is_none()
    );
}

#[test]
fn i3_an_mcp_client_receives_a_link_to_a_large_result_and_reads_it() {
    let (_server, daemon) = echoing("[executor]\nmax_result_bytes = 1000\n");
    let ask = crate::routes::mcp::ask;
    let params = json!({"name": "echo", "arguments": {"long": "x".repeat(5_000)}});
    let answer = ask(&daemon.socket, "tools/call", params);
    let content = answer["result"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 2, "{answer}");
    assert!(content[0]["text"].as_str().unwrap().len() < 1_500);
    assert_eq!(content[1]["type"], "resource_link");
    let uri = content[1]["uri"].as_str().unwrap();
    let read = ask(&daemon.socket, "resources/read", json!({"uri": uri}));
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), content[1]["size"]);
    let whole: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        whole["structuredContent"]["echo"]["long"],
        "x".repeat(5_000)
    );
    let gone = json!({"uri": "pillion://results/00000000000000000000000000000000"});
    let gone = ask(&daemon.socket, "resources/read", gone);
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
}

#[test]
fn l3_over_tcp_only_the_caller_can_read_a_large_result() {
    let tokens = "one execute 0123456789abcdefghij;two execute abcdefghij0123456789;boss admin zyxwvutsrqponmlkjihg";
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let toml = format!(
        "[tcp]\nlisten = \"{address}\"\ntokens_env = \"TOKENS\"\n\
         [executor]\nmax_result_bytes = 10\n"
    );
    let daemon = Daemon::with_config(&toml, &[("TOKENS", tokens)]);
    let send = |method: &str, path: &str, token: &str, user: &str, body: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\nx-pillion-user: {user}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (one, two) = ("0123456789abcdefghij", "abcdefghij0123456789");
    let execute = "/api/v1/tools/execute/calculator";
    let answer = send(
        "POST",
        execute,
        one,
        "alice",
        r#"{"expression": "111111 * 111111"}"#,
    );
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let answer: serde_json::Value = serde_json::from_str(body).unwrap();
    let url = answer["result"]["metadata"]["stored_result"]["url"]
        .as_str()
        .unwrap();
    let status = |token, user| send("GET", url, token, user, "")[9..12].to_owned();
    assert_eq!(status(one, "alice"), "200");
    assert_eq!(status(one, "bob"), "404");
    assert_eq!(status(two, "alice"), "404");
    assert_eq!(status("zyxwvutsrqponmlkjihg", "root"), "200");
    drop(daemon);
}
