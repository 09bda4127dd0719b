//! Calls that a server runs as tasks (extension of revision 2026-07-28).

use pillion_mcp_client::Callbacks;
use pillion_testkit::FakeMcpBuilder;
use serde_json::Map;

use super::*;

fn stateless() -> FakeMcpBuilder {
    FakeMcp::builder(Dialect::Stateless)
}

fn auto(server: &FakeMcp) -> McpClient {
    client(&server.url, TransportKind::Auto)
}

/// Returns a client that accepts and counts every form.
fn obliging(url: &str) -> (McpClient, Arc<AtomicUsize>) {
    let prompts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&prompts);
    let callbacks = Callbacks::new().on_elicitation(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!({"action": "accept"})) }
    });
    let client = McpClient::with_callbacks(config(url, TransportKind::Auto), callbacks);
    (client, prompts)
}

/// Returns the first response to a call that runs as a task.
fn begun() -> Value {
    json!({"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 0.5})
}

/// Starts a server of tasks that answers `tasks/get` and `tasks/update` with these faults, or with
/// the result of the function if it returns one.
async fn faulty(
    response: impl Fn(&Recorded, &str) -> Result<Value, Vec<Fault>> + Send + Sync + 'static,
) -> FaultServer {
    FaultServer::start(move |request| {
        let result = match request.rpc_method().as_str() {
            "server/discover" => Ok(json!({"supportedVersions": ["2026-07-28"]})),
            "tools/call" => Ok(begun()),
            method => response(request, method),
        };
        result.map_or_else(
            |faults| faults,
            |result| vec![Fault::reply(request, &Reply::result(&result))],
        )
    })
    .await
}

#[tokio::test]
async fn a_task_is_polled_until_its_result() {
    let polls = AtomicUsize::new(0);
    let begun = json!({
        "resultType": "task", "taskId": "t1", "status": "working",
        "statusMessage": "begun", "ttlMs": null, "pollIntervalMs": 1,
    });
    let server = stateless()
        .on("tools/call", fixed(begun))
        .on("tasks/get", move |_| {
            Reply::result(&match polls.fetch_add(1, Ordering::SeqCst) {
                0 => json!({"taskId": "t1", "status": "working", "pollIntervalMs": 1}),
                1 => json!({
                    "taskId": "t1", "status": "input_required", "pollIntervalMs": 1,
                    "inputRequests": {"q": {"method": "elicitation/create", "params": {}}},
                }),
                _ => json!({"taskId": "t1", "status": "completed", "result": {"n": 7}}),
            })
        })
        .on("tasks/update", |_| Reply::raw_result("{}"))
        .start();
    let received = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&received);
    let options = RequestOptions::default().on_progress(move |progress| {
        assert_eq!(progress.message.as_deref(), Some("begun"));
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let client = obliging(&server.url).0;
    let call = client.call_tool_with_options("roll", &(), &options);
    assert_eq!(call.await.unwrap().result.get(), r#"{"n":7}"#);
    assert_eq!(received.load(Ordering::SeqCst), 1);
    let update = server.requests.first("tasks/update");
    let responses = json!({"q": {"action": "accept"}});
    assert_eq!(update["params"]["inputResponses"], responses);
    assert!(server.requests.calls("tasks/cancel").is_empty());
}

#[tokio::test]
async fn failed_cancelled_and_abandoned_tasks_end_the_call() {
    let task = |status: Value| {
        let begun = json!({"resultType": "task", "taskId": "t", "status": "working"});
        stateless()
            .on("tools/call", fixed(begun))
            .on("tasks/get", move |_| Reply::result(&status))
            .start()
    };
    let server = task(json!({
        "taskId": "t", "status": "failed", "error": {"code": -32602, "message": "Bad dice"},
    }));
    let error = roll(&auto(&server)).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP Error -32602: Bad dice");
    let server = task(json!({"taskId": "t", "status": "cancelled", "statusMessage": "by hand"}));
    let error = roll(&auto(&server)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Cancelled);
    assert_contains!(error.to_string(), "by hand");
    let server = task(json!({"taskId": "t", "status": "working"}));
    let client = auto(&server);
    let error = roll_within(&client, Duration::from_millis(300)).await;
    assert!(error.is_timeout());
    received(&server.requests, "tasks/cancel", 1).await;
}

#[tokio::test]
async fn a_temporarily_unreachable_server_does_not_end_a_task() {
    let polls = AtomicUsize::new(0);
    let server = faulty(move |request, _| {
        let error = Reply::error(-32603, "Oops").response(&request.rpc_id());
        match polls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(vec![Fault::Close]),
            2 => Err(vec![Fault::text("503 Service Unavailable", "Busy")]),
            3 => Err(vec![Fault::response("500 Internal Server Error", JSON, error)]),
            4 => Ok(json!({"taskId": "t", "status": "working", "inputRequests": null, "pollIntervalMs": -1})),
            5 => Err(vec![Fault::json("")]),
            _ => Ok(json!({"taskId": "t", "status": "completed", "result": {"n": 7}})),
        }
    })
    .await;
    let client = client(&server.url, TransportKind::Auto);
    assert_eq!(roll(&client).await.unwrap().get(), r#"{"n":7}"#);
    assert_eq!(server.requests.count("tools/call"), 1);
    assert!(server.requests.calls("tasks/cancel").is_empty());
}

#[tokio::test]
async fn a_task_of_an_unreachable_server_ends_at_the_deadline() {
    let server = faulty(|_, _| Err(vec![Fault::text("503 Service Unavailable", "Busy")])).await;
    let client = client(&server.url, TransportKind::Auto);
    let before = Instant::now();
    let error = roll_within(&client, Duration::from_secs(1)).await;
    assert!(error.is_timeout());
    assert!(before.elapsed() < Duration::from_secs(5));
    assert!(server.requests.count("tasks/get") > 2);
}

#[tokio::test]
async fn an_error_about_the_task_ends_the_call() {
    for (code, polls) in [(-32602, 1), (-32603, 5)] {
        let server = stateless()
            .on("tools/call", |_| Reply::result(&begun()))
            .on("tasks/get", move |_| Reply::error(code, "No such task"))
            .start();
        let error = roll(&auto(&server)).await.unwrap_err();
        assert_eq!(error.rpc_error().unwrap().code, code);
        assert_eq!(server.requests.count("tasks/get"), polls);
    }
}

#[tokio::test]
async fn a_lost_answer_is_sent_again_without_asking_the_user_twice() {
    let updates = Arc::new(AtomicUsize::new(0));
    let server = faulty(move |_, method| match method {
        "tasks/update" => match updates.fetch_add(1, Ordering::SeqCst) {
            0 => Err(vec![Fault::Close]),
            _ => Ok(json!({})),
        },
        _ if updates.load(Ordering::SeqCst) < 2 => Ok(json!({
            "taskId": "t", "status": "input_required", "pollIntervalMs": 1,
            "inputRequests": {"q": {"method": "elicitation/create", "params": {}}},
        })),
        _ => Ok(json!({"taskId": "t", "status": "completed", "result": 1})),
    })
    .await;
    let (client, prompts) = obliging(&server.url);
    roll(&client).await.unwrap();
    assert_eq!(prompts.load(Ordering::SeqCst), 1);
    let updates = server.requests.calls("tasks/update");
    assert_eq!(updates.len(), 2);
    let responses = json!({"q": {"action": "accept"}});
    assert_eq!(updates[1].json()["params"]["inputResponses"], responses);
}

#[tokio::test]
async fn a_task_with_endless_input_requests_is_an_error() {
    let number = AtomicUsize::new(0);
    let question = json!({"method": "elicitation/create", "params": {}});
    let server = stateless()
        .on("tools/call", |_| Reply::result(&begun()))
        .on("tasks/update", |_| Reply::raw_result("{}"))
        .on("tasks/get", move |_| {
            let first = number.fetch_add(32, Ordering::SeqCst);
            let questions: Map<String, Value> = (first..first + 32)
                .map(|number| (format!("q{number}"), question.clone()))
                .collect();
            Reply::result(&json!({
                "taskId": "t", "status": "input_required", "pollIntervalMs": 1,
                "inputRequests": questions,
            }))
        })
        .start();
    let (client, prompts) = obliging(&server.url);
    let error = roll(&client).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::TooManyInputRequests { .. });
    assert_eq!(prompts.load(Ordering::SeqCst), 512);
    received(&server.requests, "tasks/cancel", 1).await;
}

#[tokio::test]
async fn e9_disconnecting_ends_a_task_between_two_polls() {
    let slow = json!({
        "resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 60_000,
    });
    let asking = json!({
        "resultType": "task", "taskId": "t", "status": "input_required",
        "inputRequests": {"q": {"method": "elicitation/create", "params": {}}},
    });
    for begun in [slow, asking] {
        let case = begun.to_string();
        let server = FakeMcp::start_with(Dialect::Stateless, "tools/call", fixed(begun));
        // The user takes longer than the request's timeout.
        let callbacks = Callbacks::new().on_elicitation(|_| std::future::pending());
        let config = config(&server.url, TransportKind::Auto);
        let client = McpClient::with_callbacks(config, callbacks);
        let caller = client.clone();
        let call = tokio::spawn(async move { roll(&caller).await });
        received(&server.requests, "tools/call", 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        client.disconnect().await;
        let ended = tokio::time::timeout(Duration::from_secs(5), call).await;
        let error = ended.expect(&case).unwrap().unwrap_err();
        assert_matches!(error.kind(), McpErrorKind::Disconnected, "{case}");
    }
}
