//! MCP servers that are restarted, hang or send malformed responses, seen by a caller of the
//! sidecar over REST and `/mcp`. The tests of the client in `mcp` cover every fault.

use pillion_testkit::{Recorded, Reply};

use crate::prelude::*;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// The outcome of a call: the server's result, or the error's code and text.
type Outcome = Result<Value, (String, String)>;

/// A function that calls a tool over one interface.
type Handler = fn(&Path, &str, &Value) -> Outcome;

const INTERFACES: [(&str, Handler); 2] = [("REST", over_rest), ("/mcp", over_mcp)];

fn over_rest(socket: &Path, tool: &str, arguments: &Value) -> Outcome {
    let response = socket.execute(tool, arguments);
    let result = &response["result"];
    match result["success"].as_bool() {
        Some(true) => Ok(result["data"].clone()),
        Some(false) => Err((
            result["error_code"].text().to_owned(),
            result["error"].text().to_owned(),
        )),
        None => panic!("{response}"),
    }
}

fn over_mcp(socket: &Path, tool: &str, arguments: &Value) -> Outcome {
    let params = json!({"name": tool, "arguments": arguments});
    let response = ask(socket, "tools/call", params);
    let result = &response["result"];
    if result["isError"] != true {
        assert!(result.is_object(), "{response}");
        return Ok(result.clone());
    }
    let code = result["_meta"]["pillion/error_code"].text();
    Err((
        code.to_owned(),
        result["content"][0]["text"].text().to_owned(),
    ))
}

/// Returns a working server and its part of the configuration.
fn sibling() -> (McpServer, String) {
    let server = McpServer::echo();
    let entry = server_entry("well", &server.url, "");
    (server, entry)
}

/// Asserts that the working server answers in both interfaces.
fn assert_sibling_responds(sidecar: &Sidecar, case: &str) {
    let arguments = json!({"text": case});
    for (interface, call) in INTERFACES {
        let result = call(&sidecar.socket, "well_echo", &arguments)
            .unwrap_or_else(|error| panic!("{case}, {interface}: {error:?}"));
        let echo = &result["structuredContent"]["echo"];
        assert_eq!(*echo, arguments, "{interface}");
    }
}

/// Answers like a server with sessions; its tools return their arguments. `typed` declares a result
/// with a number `n`.
fn honest(request: &Recorded) -> Vec<Fault> {
    let message = request.json();
    let result = match request.rpc_method().as_str() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }),
        "tools/list" => {
            let schema = json!({"type": "object"});
            let number = json!({
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            });
            json!({"tools": [
                {"name": "echo", "inputSchema": schema},
                {"name": "typed", "inputSchema": schema, "outputSchema": number},
            ]})
        }
        "tools/call" => {
            json!({"content": [], "structuredContent": message["params"]["arguments"]})
        }
        "ping" => json!({}),
        _ if message["id"].is_null() => {
            return vec![Fault::text("202 Accepted", "")];
        }
        _ => {
            let unknown = Reply::error(-32601, "Method not found");
            return vec![Fault::reply(request, &unknown)];
        }
    };
    let response = Reply::result(&result).response(&request.rpc_id());
    let headers = [("Content-Type", JSON), ("Mcp-Session-Id", "s1")];
    vec![Fault::response_with("200 OK", &headers, response)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_the_next_call_reconnects_to_a_restarted_server() {
    for (name, arguments) in [
        ("everything", json!({"message": "hi"})),
        ("mcp2-http", json!({"text": "hi"})),
    ] {
        let Some(mut peer) = Peer::new(name) else {
            return;
        };
        let sidecar = Sidecar::with_config(&detected_entry("far", &peer.url, ""));
        for (interface, call) in INTERFACES {
            for kills in [false, true] {
                let before = call(&sidecar.socket, "far_echo", &arguments);
                before.unwrap_or_else(|error| panic!("{name}, {interface}: {error:?}"));
                peer = if kills {
                    peer.kill_and_restart()
                } else {
                    peer.restart()
                };
                let after = call(&sidecar.socket, "far_echo", &arguments)
                    .unwrap_or_else(|error| panic!("{name}, {interface}: {error:?}"));
                let message = after["content"][0]["text"].text();
                assert!(message.contains("hi"), "{name}, {interface}: {message}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_a_lost_session_is_replaced_within_the_call() {
    for dialect in [Dialect::StreamableJson, Dialect::StreamableSse] {
        let server = FakeMcp::start(dialect);
        let entry = server_entry("far", &server.url, "");
        let sidecar = Sidecar::with_config(&entry);
        for (interface, call) in INTERFACES {
            call(&sidecar.socket, "far_roll", &json!({})).unwrap();
            let opened = server.requests.count("initialize");
            server.forget_sessions();
            let result = call(&sidecar.socket, "far_roll", &json!({})).unwrap();
            // The server answers with a bare object, which `/mcp` converts to a `CallToolResult`.
            let total = result
                .get("total")
                .unwrap_or(&result["structuredContent"]["total"]);
            assert_eq!(*total, 15, "{interface}");
            let again = server.requests.count("initialize");
            assert_eq!(again, opened + 1, "{interface}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_calls_to_a_hanging_server_time_out_and_other_servers_are_unaffected() {
    const DEADLINE: Duration = Duration::from_secs(6);
    let server = FaultServer::start(|request| {
        if request.json()["params"]["arguments"]["hang"] == true {
            return vec![Fault::Hang];
        }
        honest(request)
    })
    .await;
    let (_well, well) = sibling();
    let more = format!(
        "transport = \"streamable_http\"\ntimeout_ms = {}",
        DEADLINE.as_millis()
    );
    let sidecar = Sidecar::with_config(&(detected_entry("hung", &server.url, &more) + &well));
    // All servers are known and connected.
    for (_, call) in INTERFACES {
        call(&sidecar.socket, "hung_echo", &json!({"hang": false})).unwrap();
    }
    assert_sibling_responds(&sidecar, "before");
    let before = server.requests.count("tools/call");
    thread::scope(|scope| {
        let calls = INTERFACES.map(|(interface, call)| {
            let socket = &sidecar.socket;
            let started = Instant::now();
            let hung = scope.spawn(move || {
                let outcome = call(socket, "hung_echo", &json!({"hang": true}));
                (outcome, started.elapsed())
            });
            (interface, hung)
        });
        eventually("both calls have reached the server", || {
            server.requests.count("tools/call") == before + 2
        });
        assert_sibling_responds(&sidecar, "meanwhile");
        for (interface, hung) in &calls {
            assert!(!hung.is_finished(), "{interface}");
        }
        for (interface, hung) in calls {
            let (outcome, elapsed) = hung.join().unwrap();
            let (code, message) = outcome.unwrap_err();
            assert_eq!(code, "timeout", "{interface}: {message}");
            assert!(elapsed >= DEADLINE, "{interface}: {elapsed:?}");
            assert!(elapsed < 3 * DEADLINE, "{interface}: {elapsed:?}");
        }
    });
    assert_sibling_responds(&sidecar, "afterwards");
    for (interface, call) in INTERFACES {
        let result = call(&sidecar.socket, "hung_echo", &json!({"hang": false}));
        let hang = result.unwrap()["structuredContent"]["hang"].clone();
        assert_eq!(hang, false, "{interface}");
    }
}

/// Malformed responses of a server.
fn lies() -> [(&'static str, Vec<Fault>); 6] {
    let half = Fault::Send(b"data: {\"jsonrpc\":\"2.0\",\"id\":".to_vec());
    let foreign = Reply::raw_result("{}").response("\"unknown\"");
    let event = format!("data: {foreign}\n\n");
    let stream = |body: &str| vec![Fault::response("200 OK", EVENT_STREAM, body)];
    let cut = vec![Fault::head(EVENT_STREAM), Fault::Close];
    let cut_in_event = vec![Fault::head(EVENT_STREAM), half, Fault::Close];
    [
        ("a foreign id", vec![Fault::json(foreign)]),
        ("a foreign id in a stream", stream(&event)),
        ("garbage", vec![Fault::json("{\"jsonrpc\": oh")]),
        ("garbage in a stream", stream("data: {oh\n\n")),
        ("a stream that ends at once", cut),
        ("a stream that ends in an event", cut_in_event),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_malformed_responses_have_a_clear_code_and_affect_no_other_server() {
    let server = FaultServer::start(|request| {
        let lie = request.json()["params"]["arguments"]["lie"].clone();
        let reported = lies().into_iter().find(|(name, ..)| lie == *name);
        reported.map_or_else(|| honest(request), |(_, faults)| faults)
    })
    .await;
    let (_well, well) = sibling();
    let entry = server_entry("liar", &server.url, "");
    let sidecar = Sidecar::with_config(&(entry + &well));
    for (lie, _) in lies() {
        for (interface, call) in INTERFACES {
            let before = server.requests.count("tools/call");
            let failed = call(&sidecar.socket, "liar_echo", &json!({"lie": lie}));
            let (reported, message) = failed.unwrap_err();
            assert_eq!(reported, "internal_error", "{lie}, {interface}: {message}");
            assert!(!message.is_empty(), "{lie}, {interface}");
            // A call that may have run is not retried.
            let sent = server.requests.count("tools/call");
            assert_eq!(sent, before + 1, "{lie}, {interface}");
            let honest = call(&sidecar.socket, "liar_echo", &json!({"n": 1}))
                .unwrap_or_else(|error| panic!("{lie}, {interface}: {error:?}"));
            assert_eq!(honest["structuredContent"], json!({"n": 1}));
        }
        assert_sibling_responds(&sidecar, lie);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e10_a_result_that_violates_its_schema_has_a_warning() {
    let server = FaultServer::start(honest).await;
    let (_well, well) = sibling();
    let entry = server_entry("liar", &server.url, "");
    let sidecar = Sidecar::with_config(&(entry + &well));
    let broken = json!({"n": "one"});
    for (interface, call) in INTERFACES {
        let result = call(&sidecar.socket, "liar_typed", &broken);
        assert_eq!(result.unwrap()["structuredContent"], broken, "{interface}");
    }
    let path = "/api/v1/tools/execute/liar_typed";
    let word = |arguments: &Value| {
        let response = sidecar.post(path, arguments.to_string()).json();
        response["result"]["metadata"]["output_mismatch"].clone()
    };
    assert_starts_with!(word(&broken).text(), "at '/n'");
    assert_eq!(word(&json!({"n": 1})), Value::Null);
    assert_sibling_responds(&sidecar, "afterwards");
}
