//! Features of the revisions with a handshake: resumed streams, server requests and notifications,
//! cancellation.

use pillion_mcp_client::{Callbacks, McpLogLevel};
use tokio::sync::Notify;

use super::*;

#[tokio::test]
async fn an_interrupted_stream_is_resumed_at_its_last_event() {
    for cut in [Fault::Close, Fault::Send(b"id: 9\ndata: {\"ha".to_vec())] {
        let gets = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&gets);
        let server = FaultServer::start(move |request| {
            if request.method == "GET" {
                let nth = counter.fetch_add(1, Ordering::SeqCst);
                let last = request.header("last-event-id");
                assert_eq!(last, if nth == 0 { "1" } else { "2" });
                if nth == 0 {
                    // A further attempt to resume the stream delivers only a new event ID.
                    return vec![
                        Fault::head(EVENT_STREAM),
                        Fault::Send(b"id: 2\ndata:\n\n".to_vec()),
                        Fault::Close,
                    ];
                }
                let response = Reply::raw_result(ROLLED).response("2");
                let event = format!("id: 3\ndata: {response}\n\n");
                return vec![Fault::response("200 OK", EVENT_STREAM, event)];
            }
            if request.rpc_method() == "tools/call" {
                return vec![
                    Fault::head(EVENT_STREAM),
                    Fault::Send(b"id: 1\nretry: 20\ndata:\n\n".to_vec()),
                    cut.clone(),
                    Fault::Close,
                ];
            }
            in_session(request)
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
        assert_eq!(gets.load(Ordering::SeqCst), 2);
        assert_eq!(server.requests.count("tools/call"), 1);
        let all = server.requests.all();
        let resumed = all.iter().find(|request| request.method == "GET").unwrap();
        assert_eq!(resumed.header("mcp-session-id"), "s1");
        assert_eq!(resumed.header("mcp-protocol-version"), "2025-11-25");
    }
}

#[tokio::test]
async fn a_stream_without_new_events_is_not_resumed_endlessly() {
    let server = FaultServer::start(|request| {
        let prime = Fault::Send(b"id: 1\nretry: 1\ndata:\n\n".to_vec());
        if request.method == "GET" || request.rpc_method() == "tools/call" {
            return vec![Fault::head(EVENT_STREAM), prime, Fault::Close];
        }
        in_session(request)
    })
    .await;
    let error = roll_error(&server.url, TransportKind::StreamableHttp).await;
    let text = "MCP request failed: No valid JSON-RPC response found; the tool may have run";
    assert_eq!(error.to_string(), text);
    assert!(server.requests.all().len() < 20);
}

#[tokio::test]
async fn a_dropped_call_sends_a_cancellation() {
    for (dialect, transport) in [
        (Dialect::StreamableJson, TransportKind::StreamableHttp),
        (LEGACY_SSE, TransportKind::LegacySse),
    ] {
        let server = FakeMcp::builder(dialect)
            .with_slow_calls(Duration::from_secs(60))
            .start();
        let client = client(&server.url, transport);
        let error = roll_within(&client, Duration::from_millis(300)).await;
        assert!(error.is_timeout());
        received(&server.requests, "notifications/cancelled", 1).await;
        let call = server.requests.first("tools/call");
        let cancelled = server.requests.first("notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], call["id"]);
    }
}

#[tokio::test]
async fn a_server_request_during_a_call_is_answered() {
    let answered = Arc::new(Notify::new());
    let server = FaultServer::start(move |request| {
        if request.rpc_method() == "tools/call" {
            let token = &request.json()["params"]["_meta"]["progressToken"];
            let progress = json!({"method": "notifications/progress", "params": {"progressToken": token, "progress": 0.5}});
            let question = json!({"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {"maxTokens": 5}});
            let response = Reply::raw_result(ROLLED).response(&request.rpc_id());
            return vec![
                Fault::head(EVENT_STREAM),
                Fault::Send(format!("data: {progress}\n\ndata: {question}\n\n").into_bytes()),
                Fault::WaitFor(Arc::clone(&answered)),
                Fault::event(response),
                Fault::Close,
            ];
        }
        if request.rpc_id() == "\"q1\"" {
            answered.notify_one();
        }
        if request.method == "GET" {
            return vec![Fault::text("405 Method Not Allowed", "")];
        }
        in_session(request)
    })
    .await;
    let callbacks = Callbacks::new().on_sampling(|params| async move {
        assert_eq!(params.get(), r#"{"maxTokens":5}"#);
        Ok(json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}))
    });
    let config = config(&server.url, TransportKind::StreamableHttp);
    let client = McpClient::with_callbacks(config, callbacks);
    let halves = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&halves);
    let options = RequestOptions::default().on_progress(move |progress| {
        assert_eq!(progress.progress, 0.5);
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let call = client.call_tool_with_options("roll", &(), &options);
    assert_eq!(call.await.unwrap().result.get(), ROLLED);
    assert_eq!(halves.load(Ordering::SeqCst), 1);
    let initialize = server.requests.first("initialize");
    let capabilities = &initialize["params"]["capabilities"];
    assert_eq!(*capabilities, json!({"sampling": {}}));
    let responses = server.requests.all();
    let response = responses.iter().find(|sent| sent.rpc_id() == "\"q1\"");
    assert_eq!(response.unwrap().json()["result"]["model"], "m");
}

#[tokio::test]
async fn a_subscription_receives_notifications_and_survives_reconnections() {
    let server = FakeMcp::builder(LEGACY_SSE)
        .on("resources/subscribe", |_| Reply::raw_result("{}"))
        .on("resources/unsubscribe", |_| Reply::raw_result("{}"))
        .start();
    let client = client(&server.url, TransportKind::LegacySse);
    let mut subscription = client.subscribe(file_filter()).await.unwrap();
    let updated = |uri: &str| {
        format!(
            "data: {{\"method\":\"notifications/resources/updated\",\"params\":{{\"uri\":\"{uri}\"}}}}\n\n"
        )
    };
    // Notifications without a subscription are not forwarded.
    server.push(updated("file:///b"));
    server.push("data: {\"method\":\"notifications/tools/list_changed\"}\n\n");
    server.push(updated("file:///a"));
    let notification = subscription.next().await.unwrap();
    assert_eq!(notification.params.get(), r#"{"uri":"file:///a"}"#);

    server.close_streams();
    received(&server.requests, "resources/subscribe", 2).await;
    server.push(updated("file:///a"));
    assert!(subscription.next().await.is_some());
    drop(subscription);
    received(&server.requests, "resources/unsubscribe", 1).await;
}

#[tokio::test]
async fn lists_reads_prompts_and_completions_are_forwarded() {
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on("resources/list", |params| match params["cursor"].as_str() {
            None => Reply::raw_result(
                r#"{"resources":[{"uri":"a:","name":"a","x":1.50}],"nextCursor":"2"}"#,
            ),
            _ => Reply::raw_result(r#"{"resources":[{"uri":"b:","name":"b"}]}"#),
        })
        .on("resources/templates/list", |_| {
            Reply::raw_result(r#"{"resourceTemplates":[{}]}"#)
        })
        .on("resources/read", |params| {
            Reply::result(&json!({"contents": [], "uri": params["uri"]}))
        })
        .on("prompts/get", |params| {
            Reply::result(&json!({"messages": [], "got": params}))
        })
        .on("completion/complete", |params| {
            Reply::result(&json!({"completion": {"values": []}, "got": params}))
        })
        .on("logging/setLevel", |_| Reply::raw_result("{}"))
        .start();
    let client = client(&server.url, TransportKind::StreamableHttp);
    let resources = client.list_resources().await.unwrap();
    assert_eq!(resources[0].get(), r#"{"uri":"a:","name":"a","x":1.50}"#);
    assert_eq!(resources.len(), 2);
    assert_eq!(client.list_resource_templates().await.unwrap().len(), 1);
    assert!(client.list_prompts().await.unwrap().is_empty());
    let read = client.read_resource("a:").await.unwrap();
    assert_eq!(read.get(), r#"{"contents":[],"uri":"a:"}"#);
    let prompt = client.get_prompt("p", &json!([])).await.unwrap();
    let text = r#"{"messages":[],"got":{"name":"p","arguments":{}}}"#;
    assert_eq!(prompt.get(), text);
    let reference = json!({"type": "ref/prompt", "name": "p"});
    let completion = client.complete(&reference, "lang", "py").await.unwrap();
    let argument = r#""argument":{"name":"lang","value":"py"}"#;
    assert_contains!(completion.get(), argument);
    client.set_log_level(McpLogLevel::Error).await.unwrap();
    let level = server.requests.first("logging/setLevel");
    assert_eq!(level["params"], json!({"level": "error"}));
    client.ping().await.unwrap();
}

#[tokio::test]
async fn a_read_only_call_is_retried_when_its_connection_breaks() {
    for (annotations, calls, works) in [
        (json!({"readOnlyHint": true}), 2, true),
        (json!({"idempotentHint": true}), 2, true),
        (json!({"destructiveHint": false}), 1, false),
    ] {
        let first = Arc::new(AtomicUsize::new(0));
        let list =
            json!({"tools": [{"name": "roll", "inputSchema": {}, "annotations": annotations}]});
        let server = FaultServer::start(move |request| match request.rpc_method().as_str() {
            "tools/call" if first.fetch_add(1, Ordering::SeqCst) == 0 => vec![Fault::Close],
            "tools/call" => vec![Fault::reply(request, &Reply::raw_result(ROLLED))],
            "tools/list" => vec![Fault::reply(request, &Reply::result(&list))],
            _ => in_session(request),
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        client.list_tools().await.unwrap();
        assert_eq!(roll(&client).await.is_ok(), works, "{annotations}");
        assert_eq!(server.requests.count("tools/call"), calls, "{annotations}");
    }
}

#[tokio::test]
async fn a_mismatch_with_the_output_schema_is_reported_with_the_result() {
    let list = json!({"tools": [{
        "name": "roll", "inputSchema": {},
        "outputSchema": {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]},
    }]});
    let structured = |total: Value| json!({"content": [], "structuredContent": {"total": total}});
    for (result, mismatch) in [
        (structured(json!(5)), None),
        (structured(json!("x")), Some("/total")),
        (json!({"content": []}), Some("no structuredContent")),
        (json!({"content": [], "isError": true}), None),
    ] {
        let (list, response) = (list.clone(), result.clone());
        let server = FakeMcp::builder(Dialect::StreamableJson)
            .on("tools/list", move |_| Reply::result(&list))
            .on("tools/call", move |_| Reply::result(&response))
            .start();
        let client = client(&server.url, TransportKind::StreamableHttp);
        client.list_tools().await.unwrap();
        let options = RequestOptions::default();
        let call = client.call_tool_with_options("roll", &(), &options);
        let called = call.await.unwrap();
        assert_eq!(called.result.get(), result.to_string());
        match (called.output_mismatch, mismatch) {
            (None, None) => {}
            (Some(text), Some(part)) => assert_contains!(text, part),
            (text, _) => panic!("{result}: {text:?}"),
        }
    }
}

#[tokio::test]
async fn a_call_whose_session_expired_before_its_stream_resumed_is_not_retried() {
    let server = FaultServer::start(|request| {
        if request.method == "GET" {
            return vec![Fault::text("404 Not Found", "")];
        }
        if request.rpc_method() == "tools/call" {
            let prime = Fault::Send(b"id: 1\nretry: 1\ndata:\n\n".to_vec());
            return vec![Fault::head(EVENT_STREAM), prime, Fault::Close];
        }
        in_session(request)
    })
    .await;
    let client = client(&server.url, TransportKind::StreamableHttp);
    roll(&client).await.unwrap_err();
    assert_eq!(server.requests.count("tools/call"), 1);
}

#[tokio::test]
async fn some_of_too_many_server_requests_are_answered_and_the_call_succeeds() {
    const QUESTIONS: usize = 500;
    let server = FaultServer::start(move |request| {
        if request.method == "GET" {
            return vec![Fault::text("405 Method Not Allowed", "")];
        }
        if request.rpc_method() != "tools/call" {
            return in_session(request);
        }
        let question = |id: usize| {
            let question = json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": {}});
            format!("data: {question}\n\n")
        };
        let questions: String = (0..QUESTIONS).map(question).collect();
        let notice = json!({"method": "notifications/message", "params": {"data": "x".repeat(100_000)}});
        let notices = format!("data: {notice}\n\n").into_bytes();
        let response = Reply::raw_result(ROLLED).response(&request.rpc_id());
        vec![
            Fault::head(EVENT_STREAM),
            Fault::Send(questions.into_bytes()),
            Fault::Times(100, notices),
            Fault::Wait(Duration::from_millis(1000)),
            Fault::event(response),
            Fault::Close,
        ]
    })
    .await;
    let (at_once, max_at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&max_at_once);
    let callbacks = Callbacks::new().on_sampling(move |_| {
        highest.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let at_once = Arc::clone(&at_once);
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok(json!({}))
        }
    });
    let config = config(&server.url, TransportKind::StreamableHttp);
    let client = McpClient::with_callbacks(config, callbacks);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    let reached = max_at_once.load(Ordering::SeqCst);
    assert!((1..=16).contains(&reached), "{reached}");
    let responses = server.requests.calls("");
    let rejected = |response: &&Recorded| response.json()["error"]["code"] == -32000;
    assert!(responses.iter().filter(rejected).count() > 0);
    assert!(responses.len() < QUESTIONS, "{}", responses.len());
    assert_eq!(server.requests.count("tools/call"), 1);
    client.ping().await.unwrap();
}
