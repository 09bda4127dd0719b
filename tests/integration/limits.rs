//! Limits: counts survive the process, and calls of one source do not delay calls of others.

use pillion_wire::ToolOutcome;

use crate::prelude::*;

fn call(socket: &std::path::Path, tool: &str, user: &str) -> ToolOutcome {
    let caller = Caller::default().user(user);
    let client = Client::builder(socket).build();
    client.run_tool(tool, &json!({"expression": "1"}), &caller)
}

fn code(outcome: &ToolOutcome) -> Option<&str> {
    outcome.error_code.as_deref()
}

fn assert_limited(socket: &Path, tool: &str, user: &str) {
    assert_eq!(code(&call(socket, tool, user)), Some("rate_limited"));
}

const LIMITED: &str = "[tools.calculator]\nrate_limit = { per_minute = 3, per_hour = 4 }\n";

#[test]
fn c7_limit_counts_survive_a_crash_and_a_stop() {
    let mut daemon = Daemon::with_config(LIMITED);
    for _ in 0..2 {
        assert!(call(&daemon.socket, "calculator", "alice").success);
    }
    let mut daemon = daemon.restart();
    assert!(call(&daemon.socket, "calculator", "alice").success);
    // Rejected calls do not count.
    for _ in 0..5 {
        let rejected = call(&daemon.socket, "calculator", "alice");
        assert_eq!(code(&rejected), Some("rate_limited"));
        let wait = rejected.metadata["retry_after"].as_u64().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
    assert!(call(&daemon.socket, "calculator", "bob").success);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    let daemon = daemon.again();
    assert_limited(&daemon.socket, "calculator", "alice");
    for _ in 0..2 {
        assert!(call(&daemon.socket, "calculator", "bob").success);
    }
    assert_limited(&daemon.socket, "calculator", "bob");
}

#[test]
fn c7_limit_counts_survive_a_takeover() {
    let mut daemon = Daemon::with_config(LIMITED);
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
    assert_limited(&socket, "calculator", "alice");
    drop(next);
}

#[test]
fn c7_the_limit_of_a_server_survives_a_crash() {
    let (server, mut daemon) = echoing("rate_limit = { per_day = 1 }");
    assert!(call(&daemon.socket, "far_echo", "alice").success);
    let daemon = daemon.restart();
    daemon.tools();
    assert_limited(&daemon.socket, "far_echo", "alice");
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn c1_a_hanging_server_delays_neither_other_servers_nor_local_tools() {
    let (far, near) = (McpServer::echo(), McpServer::echo());
    let toml = server_entry("far", &far.url, "max_concurrent = 2")
        + &server_entry("near", &near.url, "[executor]\ntimeout_ms = 15000");
    let daemon = Daemon::with_config(&toml);
    daemon.tools();
    far.set_mood(Mood::Asleep);
    let socket = &daemon.socket;
    let calls = |what: &str| socket.get("/api/v1/status").json()["calls"][what].clone();
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

/// Returns a schema whose validation never finishes.
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
    let toml = server_entry("far", &server.url, "[executor]\ntimeout_ms = 8000");
    let daemon = Daemon::with_config(&toml);
    daemon.tools();
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
    let server = McpServer::echo();
    let toml = format!(
        "[executor]\nmax_concurrent_total = 1\nmax_queued = 2\ntimeout_ms = 3000\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n",
        server.url
    );
    let daemon = Daemon::with_config(&toml);
    daemon.tools();
    server.set_mood(Mood::Asleep);
    let socket = &daemon.socket;
    let calls = |what: &str| socket.get("/api/v1/status").json()["calls"][what].clone();
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
        let rejected = call(socket, "calculator", "greedy");
        assert_eq!(code(&rejected), Some("rate_limited"));
        assert_eq!(rejected.metadata["retry_after"], 1);
        let metrics = socket.get("/metrics").text();
        assert_contains!(metrics, "pillion_tool_calls_running 1\n");
        assert_contains!(metrics, "pillion_tool_calls_queued 2\n");
        // A call of another user is queued, in place of a call of the user with the most queued
        // calls.
        let other = begin("calculator", "alice");
        assert_eq!(code(&running.join().unwrap()), Some("timeout"));
        let ends = waiting.map(|waiting| waiting.join().unwrap());
        let codes: Vec<_> = ends.iter().map(code).collect();
        assert!(codes.contains(&Some("rate_limited")), "{codes:?}");
        // The later call has time left before its deadline, so it is not rejected.
        assert_ne!(code(&other.join().unwrap()), Some("rate_limited"));
    });
}

/// Starts a server whose `echo` returns its arguments, and a sidecar with these settings.
fn echoing(settings: &str) -> (McpServer, Daemon) {
    let server = McpServer::echo();
    let toml = server_entry("far", &server.url, settings);
    let daemon = Daemon::with_config(&toml);
    daemon.tools();
    (server, daemon)
}

#[test]
fn c4_a_large_result_can_be_fetched_after_a_crash() {
    let (_server, mut daemon) = echoing("[tools.far_echo]\nmax_result_bytes = 1000\n");
    let caller = Caller::default().user("alice");
    let client = daemon.client();
    let arguments = json!({"long": "\u{e9}".repeat(50_000)});
    let outcome = client.run_tool("far_echo", &arguments, &caller);
    assert!(outcome.success, "{outcome:?}");
    assert!(outcome.text.len() < 1_500);
    let stored_result = &outcome.metadata["stored_result"];
    let url = stored_result["url"].text();
    assert_contains!(outcome.text, url);

    let daemon = daemon.restart();
    let whole = daemon.get(url);
    assert_eq!(whole.status, 200);
    assert_contains!(whole.head, "content-type: application/json");
    assert_eq!(whole.json()["structuredContent"]["echo"], arguments);
    assert_eq!(stored_result["bytes"], whole.body.len());
    let part = daemon.get_with(url, "range: bytes=2-8\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[2..9]));
    let range = format!("content-range: bytes 2-8/{}", whole.body.len());
    assert_contains!(part.head, &range);
    let beyond = "range: bytes=9999999-\r\n";
    let beyond = daemon.get_with(url, beyond);
    assert_eq!(beyond.status, 416);
    let unknown = daemon.get("/api/v1/results/00000000000000000000000000000000");
    assert_eq!(
        (unknown.status, unknown.json()["error_code"].as_str()),
        (404, Some("not_found"))
    );
    // A result within the limit is unchanged.
    daemon.tools();
    let small = call(&daemon.socket, "far_echo", "alice");
    assert!(small.metadata.get("stored_result").is_none());
}

#[test]
fn i3_an_mcp_client_receives_a_link_to_a_large_result_and_reads_it() {
    let (_server, daemon) = echoing("[executor]\nmax_result_bytes = 1000\n");
    let ask = crate::routes::mcp::ask;
    let params = json!({"name": "echo", "arguments": {"long": "x".repeat(5_000)}});
    let response = ask(&daemon.socket, "tools/call", params);
    let content = response["result"]["content"].items();
    assert_eq!(content.len(), 2, "{response}");
    assert!(content[0]["text"].text().len() < 1_500);
    assert_eq!(content[1]["type"], "resource_link");
    let uri = content[1]["uri"].text();
    let read = ask(&daemon.socket, "resources/read", json!({"uri": uri}));
    let text = read["result"]["contents"][0]["text"].text();
    assert_eq!(text.len(), content[1]["size"]);
    let whole: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        whole["structuredContent"]["echo"]["long"],
        "x".repeat(5_000)
    );
    let gone = json!({"uri": "pillion://results/00000000000000000000000000000000"});
    let gone = ask(&daemon.socket, "resources/read", gone);
    assert_json!(gone["error"]["code"], -32602);
}

#[test]
fn l3_over_tcp_only_the_caller_can_read_a_large_result() {
    let tokens = "one execute 0123456789abcdefghij;two execute abcdefghij0123456789;boss admin zyxwvutsrqponmlkjihg";
    let (_daemon, address) = Daemon::with_tokens(tokens, "[executor]\nmax_result_bytes = 10\n");
    let send = |line: &str, token: &str, user: &str, body: &str| {
        let headers = format!("x-pillion-user: {user}\r\n");
        http::send_with_token(address, token, line, &headers, body)
    };
    let (one, two) = ("0123456789abcdefghij", "abcdefghij0123456789");
    let execute = "POST /api/v1/tools/execute/calculator";
    let arguments = r#"{"expression": "111111 * 111111"}"#;
    let response = send(execute, one, "alice", arguments).json();
    let url = response["result"]["metadata"]["stored_result"]["url"].as_str();
    let read = format!("GET {}", url.unwrap());
    let status = |token, user| send(&read, token, user, "").status;
    assert_eq!(status(one, "alice"), 200);
    assert_eq!(status(one, "bob"), 404);
    assert_eq!(status(two, "alice"), 404);
    assert_eq!(status("zyxwvutsrqponmlkjihg", "root"), 200);
}
