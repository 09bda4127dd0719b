//! Revision 2026-07-28: no handshake, and every request contains all metadata.

use pillion_mcp_client::{Callbacks, McpLogLevel, ProtocolVersion};
use pillion_testkit::FakeMcpBuilder;

use super::*;

fn stateless() -> FakeMcpBuilder {
    FakeMcp::builder(Dialect::Stateless)
}

fn auto(server: &FakeMcp) -> McpClient {
    client(&server.url, TransportKind::Auto)
}

/// Returns a client that accepts every form.
fn obliging(server: &FakeMcp) -> McpClient {
    let callbacks = Callbacks::new().on_elicitation(|_| async { Ok(json!({"action": "accept"})) });
    McpClient::with_callbacks(config(&server.url, TransportKind::Auto), callbacks)
}

#[tokio::test]
async fn e6_discover_is_sent_once_and_every_request_has_its_revision() {
    let server = stateless().start();
    let client = auto(&server);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    client.list_tools().await.unwrap();
    let summary = ["POST server/discover", "POST tools/call", "POST tools/list"];
    assert_eq!(server.requests.summary(), summary);
    let info = client.connection().await.unwrap();
    assert_eq!(info.protocol_version, Some(ProtocolVersion::V2026_07_28));
    assert_eq!(info.transport, TransportKind::StreamableHttp);
    let name = ("fake".to_owned(), "1".to_owned());
    assert_eq!(info.server_name(), Some(name));
    let call = server.requests.calls("tools/call").remove(0);
    let params = json!({
        "name": "roll",
        "arguments": {"dice": "1d20"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {
                "name": "pillion", "version": env!("CARGO_PKG_VERSION"),
            },
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
        },
    });
    assert_eq!(call.json()["params"], params);
    // Another client of the same server uses the cached revision; a client with a pinned revision
    // needs no detection.
    assert_eq!(roll(&auto(&server)).await.unwrap().get(), ROLLED);
    let mut pinned = config(&server.url, TransportKind::Auto);
    pinned.protocol_version = Some(ProtocolVersion::V2026_07_28);
    roll(&McpClient::new(pinned)).await.unwrap();
    assert_eq!(server.requests.count("server/discover"), 1);
}

#[tokio::test]
async fn a_request_is_repeated_with_a_revision_that_the_server_names() {
    let first = AtomicBool::new(true);
    let server = FakeMcp::start_with(Dialect::Stateless, "server/discover", move |_| {
        if first.swap(false, Ordering::SeqCst) {
            let data = json!({"supported": ["2026-07-28"]});
            let error = json!({"code": -32022, "message": "No", "data": data});
            Reply::raw_error(&error)
        } else {
            Reply::result(&json!({"supportedVersions": ["2026-07-28"]}))
        }
    });
    roll(&auto(&server)).await.unwrap();
    assert!(server.requests.calls("initialize").is_empty());
}

#[tokio::test]
async fn a_server_with_only_unknown_revisions_is_a_clear_error() {
    let versions = fixed(json!({"supportedVersions": ["2031-01-01"]}));
    let server = FakeMcp::start_with(Dialect::Stateless, "server/discover", versions);
    let error = roll(&auto(&server)).await.unwrap_err();
    assert_contains!(error.to_string(), "2031-01-01");
    assert_eq!(error.class(), ErrorClass::Unavailable);
}

#[tokio::test]
async fn a_server_downgraded_to_handshakes_is_detected_again() {
    let modern = Arc::new(AtomicBool::new(true));
    let discover = Arc::clone(&modern);
    let call = Arc::clone(&modern);
    let server = stateless()
        .on("server/discover", move |_| {
            if discover.load(Ordering::SeqCst) {
                Reply::result(&json!({"supportedVersions": ["2026-07-28"]}))
            } else {
                Reply::error(-32000, "Server not initialized")
            }
        })
        .on("tools/call", move |params| {
            let stateless = params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
            if stateless && !call.load(Ordering::SeqCst) {
                return Reply::error(-32000, "Server not initialized");
            }
            Reply::raw_result(ROLLED)
        })
        .start();
    let client = auto(&server);
    roll(&client).await.unwrap();
    modern.store(false, Ordering::SeqCst);
    // Every request fails, because the fake server checks `_meta` first; the handshake was tried
    // anyway.
    roll(&client).await.unwrap_err();
    assert_eq!(server.requests.count("server/discover"), 2);
    assert_eq!(server.requests.count("initialize"), 1);
}

/// Requests a form in the first round and returns the result in the second.
fn asks_first(params: &Value) -> Reply {
    match params.get("inputResponses") {
        None => Reply::result(&json!({
            "resultType": "input_required",
            "inputRequests": {"q": {"method": "elicitation/create", "params": {
                "message": "Sure?",
                "requestedSchema": {"type": "object", "properties": {
                    "sure": {"type": "boolean", "default": true},
                }},
            }}},
            "requestState": "a \"state\" \u{e9}",
        })),
        Some(responses) => Reply::result(&json!({
            "resultType": "complete",
            "responses": responses,
            "state": params["requestState"],
            "arguments": params["arguments"],
        })),
    }
}

#[tokio::test]
async fn an_input_request_is_answered_and_the_request_repeated_with_the_state() {
    let server = stateless().on("tools/call", asks_first).start();
    let result = roll(&obliging(&server)).await.unwrap();
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let response = json!({"q": {"action": "accept", "content": {"sure": true}}});
    assert_eq!(result["responses"], response);
    assert_eq!(result["state"], "a \"state\" \u{e9}");
    assert_eq!(result["arguments"], json!({"dice": "1d20"}));
    let calls = server.requests.calls("tools/call");
    assert_ne!(calls[0].rpc_id(), calls[1].rpc_id());
    let capabilities =
        &calls[0].json()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(capabilities["elicitation"].is_object());
}

#[tokio::test]
async fn an_unanswered_input_request_is_an_error_that_names_it() {
    let server = stateless().on("tools/call", asks_first).start();
    let error = roll(&auto(&server)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Denied);
    assert_contains!(error.to_string(), "elicitation/create");
    assert_eq!(server.requests.count("tools/call"), 1);
}

#[tokio::test]
async fn endless_input_requests_and_malformed_results_are_errors() {
    let endless = json!({"resultType": "input_required", "requestState": "x"});
    let malformed = json!({"resultType": "input_required", "inputRequests": 3});
    for (result, part) in [
        (endless, "rounds"),
        (json!({"resultType": "input_required"}), "requestState"),
        (malformed, "unexpected form"),
        (json!({"resultType": "telepathy"}), "telepathy"),
    ] {
        let server = FakeMcp::start_with(Dialect::Stateless, "tools/call", fixed(result));
        let error = roll(&auto(&server)).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(server.requests.count("tools/call") <= 16);
    }
}

#[tokio::test]
async fn a_list_is_cached_for_the_ttl_of_the_server() {
    for (ttl, request_count) in [(60_000, 1), (0, 2)] {
        let list = json!({"prompts": [{"name": "p"}], "ttlMs": ttl, "cacheScope": "private"});
        let server = FakeMcp::start_with(Dialect::Stateless, "prompts/list", fixed(list));
        let client = auto(&server);
        for _ in 0..2 {
            assert_eq!(client.list_prompts().await.unwrap().len(), 1);
        }
        assert_eq!(server.requests.count("prompts/list"), request_count);
    }
}

#[tokio::test]
async fn a_list_that_changed_while_it_was_read_is_not_cached() {
    let changed = json!({"method": "notifications/prompts/list_changed", "params": {}});
    let server = FakeMcp::start_with(Dialect::Stateless, "prompts/list", move |_| {
        let list = json!({"prompts": [], "ttlMs": 60_000});
        Reply::result(&list).preceded_by(&changed)
    });
    let client = auto(&server);
    for _ in 0..2 {
        client.list_prompts().await.unwrap();
    }
    assert_eq!(server.requests.count("prompts/list"), 2);
}

#[tokio::test]
async fn an_input_request_is_not_cached() {
    let server = FakeMcp::start_with(
        Dialect::Stateless,
        "resources/read",
        |params| match params["requestState"] {
            Value::Null => Reply::result(&json!({
                "resultType": "input_required", "requestState": "x", "ttlMs": 60_000,
            })),
            _ => Reply::result(&json!({"resultType": "complete", "contents": []})),
        },
    );
    let client = auto(&server);
    for _ in 0..2 {
        client.read_resource("file:///a").await.unwrap();
    }
    assert_eq!(server.requests.count("resources/read"), 4);
}

#[tokio::test]
async fn endless_rounds_end_at_the_overall_deadline() {
    let server = FakeMcp::start_with(Dialect::Stateless, "tools/call", |_| {
        let question = json!({"resultType": "input_required", "inputRequests": {
            "q": {"method": "elicitation/create", "params": {}},
        }});
        Reply::result(&question).after(Duration::from_millis(100))
    });
    let client = obliging(&server);
    let before = Instant::now();
    let error = roll_within(&client, Duration::from_millis(450)).await;
    assert!(error.is_timeout());
    assert!(before.elapsed() < Duration::from_millis(1500));
    let error = roll(&client).await.unwrap_err();
    assert_contains!(error.to_string(), "16 rounds");
}

#[tokio::test]
async fn streams_of_two_clients_have_different_ids() {
    let server = stateless().start();
    let filter = tools_filter();
    let (one, other) = (auto(&server), auto(&server));
    let _one = one.subscribe(filter.clone()).await.unwrap();
    let _other = other.subscribe(filter).await.unwrap();
    let listens = server.requests.calls("subscriptions/listen");
    let id = |nth: usize| listens[nth].rpc_id();
    assert!(id(0).len() > 32 && id(0) != id(1), "{}", id(0));
}

#[tokio::test]
async fn a_subscription_survives_reconnections_and_ends_with_the_server() {
    let list = fixed(json!({"tools": [], "ttlMs": 60_000}));
    let server = FakeMcp::start_with(Dialect::Stateless, "tools/list", list);
    let client = auto(&server);
    client.list_tools().await.unwrap();
    let mut subscription = client.subscribe(tools_filter()).await.unwrap();
    let listen = server.requests.calls("subscriptions/listen").remove(0);
    let requested = json!({
        "toolsListChanged": true, "promptsListChanged": false, "resourcesListChanged": false,
        "resourceSubscriptions": [],
    });
    assert_eq!(listen.json()["params"]["notifications"], requested);
    let notice = |id: &str| {
        let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\
             \"params\":{{\"_meta\":{meta}}}}}\n\n"
        )
    };
    server.push(notice(&listen.rpc_id()));
    let received = subscription.next().await.unwrap();
    assert_eq!(received.method, "notifications/tools/list_changed");
    // The notification invalidated the cached list.
    client.list_tools().await.unwrap();
    assert_eq!(server.requests.count("tools/list"), 2);

    server.close_streams();
    eventually("a new stream", || server.open_streams() == 1).await;
    let listen = server.requests.calls("subscriptions/listen").remove(1);
    server.push(notice(&listen.rpc_id()));
    assert!(subscription.next().await.is_some());

    let response = Reply::raw_result("{}").response(&listen.rpc_id());
    server.push(format!("data: {response}\n\n"));
    assert!(subscription.next().await.is_none());
}

#[tokio::test]
async fn a_rejected_subscription_is_an_error_every_time() {
    let server = FaultServer::start(|request| {
        let reply = match request.rpc_method().as_str() {
            "server/discover" => Reply::result(&json!({"supportedVersions": ["2026-07-28"]})),
            _ => Reply::error(-32601, "Method not found"),
        };
        vec![Fault::reply(request, &reply)]
    })
    .await;
    let client = client(&server.url, TransportKind::Auto);
    for _ in 0..30 {
        let rejected = client.subscribe(SubscriptionFilter::default()).await;
        assert_eq!(rejected.unwrap_err().rpc_error().unwrap().code, -32601);
    }
}

#[tokio::test]
async fn disconnecting_ends_the_pause_of_a_subscription_that_broke_off() {
    let server = stateless().start();
    let client = auto(&server);
    let mut subscription = client.subscribe(tools_filter()).await.unwrap();
    drop(server);
    // The paused clock advances whenever the runtime is idle, because the pauses are long by now.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let before = tokio::time::Instant::now();
    client.disconnect().await;
    assert!(subscription.next().await.is_none());
    let waited = before.elapsed();
    assert!(waited < Duration::from_millis(100), "{waited:?}");
}

#[tokio::test]
async fn a_dropped_subscription_closes_its_stream() {
    let server = stateless().start();
    let client = auto(&server);
    let filter = SubscriptionFilter {
        prompts_list_changed: true,
        ..SubscriptionFilter::default()
    };
    let subscription = client.subscribe(filter).await.unwrap();
    assert_eq!(server.open_streams(), 1);
    drop(subscription);
    eventually("the stream's end", || server.open_streams() == 0).await;
}

#[tokio::test]
async fn progress_and_log_messages_come_before_the_result() {
    let server = FakeMcp::start_with(Dialect::Stateless, "tools/call", |params| {
        let token = &params["_meta"]["progressToken"];
        let level = &params["_meta"]["io.modelcontextprotocol/logLevel"];
        let log = json!({"method": "notifications/message", "params": {"level": level}});
        Reply::raw_result(ROLLED)
            .preceded_by(&log)
            .preceded_by(&json!({"method": "notifications/progress", "params": {
                "progressToken": token, "progress": 1, "total": 2, "message": "half",
            }}))
            .preceded_by(&json!({"method": "notifications/progress", "params": {
                "progressToken": "another's", "progress": 9,
            }}))
    });
    let levels = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&levels);
    let callbacks = Callbacks::new().on_notification(move |notice| {
        log.lock().unwrap().push(notice.params.get().to_owned());
    });
    let client = McpClient::with_callbacks(config(&server.url, TransportKind::Auto), callbacks);
    client.set_log_level(McpLogLevel::Warning).await.unwrap();
    let steps = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let options =
        RequestOptions::default().on_progress(move |step| seen.lock().unwrap().push(step));
    let call = client.call_tool_with_options("roll", &(), &options);
    call.await.unwrap();
    let steps = steps.lock().unwrap();
    assert_eq!(steps.len(), 1);
    assert_eq!((steps[0].progress, steps[0].total), (1.0, Some(2.0)));
    assert_eq!(*levels.lock().unwrap(), [r#"{"level":"warning"}"#]);
}

/// Returns a tool whose `region` is mirrored in a header.
fn with_region(header: &str) -> Value {
    json!({"tools": [
        {"name": "roll", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": header},
        }}},
        {"name": "bad", "inputSchema": {"type": "object", "properties": {
            "a": {"type": "number", "x-mcp-header": "A"},
        }}},
    ]})
}

#[tokio::test]
async fn parameters_are_mirrored_in_headers_and_read_again_after_changes() {
    let changed = Arc::new(AtomicBool::new(false));
    let (list, call) = (Arc::clone(&changed), Arc::clone(&changed));
    let server = stateless()
        .on("tools/list", move |_| {
            let is_changed = list.load(Ordering::SeqCst);
            let header = if is_changed { "Place" } else { "Region" };
            Reply::result(&with_region(header))
        })
        .on("tools/call", move |_| {
            // The server rejects the first call after the change.
            if call.swap(false, Ordering::SeqCst) {
                Reply::error(-32020, "Header mismatch: Mcp-Param-Place")
            } else {
                Reply::raw_result(ROLLED)
            }
        })
        .start();
    let client = auto(&server);
    // The invalid tool is skipped.
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    let arguments = json!({"region": "us-west1"});
    client.call_tool("roll", &arguments).await.unwrap();
    let call = server.requests.calls("tools/call").remove(0);
    assert_eq!(call.header("mcp-param-region"), "us-west1");
    assert_eq!(call.header("mcp-name"), "roll");

    changed.store(true, Ordering::SeqCst);
    // `changed` is false again when the list is requested, so the header is the old one.
    client.call_tool("roll", &arguments).await.unwrap();
    assert_eq!(server.requests.count("tools/list"), 2);
    assert_eq!(server.requests.count("tools/call"), 3);
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection_without_a_message() {
    let server = stateless().with_slow_calls(Duration::from_secs(60)).start();
    let client = auto(&server);
    let error = roll_within(&client, Duration::from_millis(200)).await;
    assert_matches!(error.kind(), McpErrorKind::Timeout { .. });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.requests.calls("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn an_error_of_a_tool_is_not_taken_for_another_revision() {
    let server = FakeMcp::start_with(Dialect::Stateless, "tools/call", |_| {
        Reply::error(-32001, "upstream timed out")
    });
    let client = auto(&server);
    let error = roll(&client).await.unwrap_err();
    assert_eq!(error.rpc_error().unwrap().code, -32001);
    assert_eq!(server.requests.count("tools/call"), 1);
}
