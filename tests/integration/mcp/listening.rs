//! The GET stream of Streamable HTTP, for messages that belong to no response.

use pillion_mcp_client::{Callbacks, Subscription};

use super::*;

const LIST_CHANGED: &str = "data: {\"method\":\"notifications/tools/list_changed\"}\n\n";

/// Returns an event stream with these bytes and this end.
fn stream(bytes: &str, end: Fault) -> Vec<Fault> {
    vec![Fault::head(EVENT_STREAM), Fault::Send(bytes.into()), end]
}

/// Starts a server that answers each GET with `stream`, and subscribes to changes of its tools.
async fn subscribed(
    stream: impl Fn(usize, &Recorded) -> Vec<Fault> + Send + Sync + 'static,
) -> (FaultServer, McpClient, Subscription) {
    let server = listening_server(stream).await;
    let client = client(&server.url, TransportKind::StreamableHttp);
    let subscription = client.subscribe(tools_filter()).await.unwrap();
    (server, client, subscription)
}

async fn hears(subscription: &mut Subscription) {
    let received = tokio::time::timeout(Duration::from_secs(10), subscription.next());
    assert!(received.await.expect("a notice").is_some());
}

fn gets(requests: &[Recorded]) -> usize {
    let gets = requests.iter().filter(|request| request.method == "GET");
    gets.count()
}

/// Answers requests in a session, and each GET with `stream`.
async fn listening_server(
    stream: impl Fn(usize, &Recorded) -> Vec<Fault> + Send + Sync + 'static,
) -> FaultServer {
    let nth = AtomicUsize::new(0);
    FaultServer::start(move |request| {
        if request.method == "GET" {
            return stream(nth.fetch_add(1, Ordering::SeqCst), request);
        }
        in_session(request)
    })
    .await
}

#[tokio::test]
async fn a_subscriber_survives_a_lost_session() {
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .with_get_stream()
        .on("resources/subscribe", |_| Reply::raw_result("{}"))
        .on("resources/unsubscribe", |_| Reply::raw_result("{}"))
        .start();
    let client = client(&server.url, TransportKind::StreamableHttp);
    let mut subscription = client.subscribe(file_filter()).await.unwrap();
    let updated = "data: {\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"file:///a\"}}\n\n";
    server.push(updated);
    hears(&mut subscription).await;

    // The server forgets its sessions, as after a restart, and no call follows.
    server.forget_sessions();
    server.close_streams();
    eventually("another subscription", || {
        let subscribed = server.requests.calls("resources/subscribe");
        let last = subscribed.last();
        last.is_some_and(|last| last.header("mcp-session-id") == "session-3")
            && server.open_streams() == 1
    })
    .await;
    server.push(updated);
    hears(&mut subscription).await;
    assert_eq!(server.requests.count("initialize"), 2);
    assert_eq!(server.requests.count("resources/subscribe"), 2);
}

#[tokio::test]
async fn a_server_without_a_stream_is_not_retried_and_keeps_its_session() {
    for status in ["405 Method Not Allowed", "404 Not Found", "400 Bad Request"] {
        let (server, client, _subscription) =
            subscribed(move |_, _| vec![Fault::text(status, "")]).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        client.list_tools().await.ok();
        assert_eq!(gets(&server.requests.all()), 1, "{status}");
        assert_eq!(server.requests.count("initialize"), 1, "{status}");
    }
}

#[tokio::test]
async fn the_stream_of_a_busy_server_is_requested_again() {
    for status in [
        "408 Request Timeout",
        "425 Too Early",
        "429 Too Many Requests",
        "503 Service Unavailable",
    ] {
        let (server, _client, mut subscription) = subscribed(move |nth, _| match nth {
            0 => vec![Fault::text(status, "")],
            _ => stream(LIST_CHANGED, Fault::Hang),
        })
        .await;
        hears(&mut subscription).await;
        assert_eq!(server.requests.count("initialize"), 1, "{status}");
    }
}

#[tokio::test]
async fn a_last_event_id_that_the_server_rejects_is_dropped() {
    let resumed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&resumed);
    let (server, _client, mut subscription) = subscribed(move |nth, request| match nth {
        0 => stream("id: 1\nretry: 100\ndata:\n\n", Fault::Close),
        1 => {
            assert_eq!(request.header("last-event-id"), "1");
            counter.fetch_add(1, Ordering::SeqCst);
            vec![Fault::text("400 Bad Request", "Too old")]
        }
        _ => {
            assert_eq!(request.header("last-event-id"), "");
            stream(LIST_CHANGED, Fault::Hang)
        }
    })
    .await;
    hears(&mut subscription).await;
    assert_eq!(resumed.load(Ordering::SeqCst), 1);
    assert_eq!(server.requests.count("initialize"), 1);
}

#[tokio::test]
async fn a_stream_that_closes_at_once_is_reopened_with_pauses() {
    let prime = |nth: usize| stream(&format!("id: {nth}\nretry: 0\ndata:\n\n"), Fault::Close);
    let (server, _client, _subscription) = subscribed(move |nth, _| prime(nth)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let opened = gets(&server.requests.all());
    // The pauses are 100, 200, 400, 800 and 1600 ms, or down to half of that.
    assert!((2..=8).contains(&opened), "{opened}");

    // The same limit applies to the stream of a response, although each stream has another event
    // ID.
    let nth = AtomicUsize::new(0);
    let server = FaultServer::start(move |request| {
        let nth = nth.fetch_add(1, Ordering::SeqCst);
        match request.rpc_method().as_str() {
            "initialize" => {
                let reply = Reply::result(&json!({"protocolVersion": "2025-11-25"}));
                vec![Fault::reply(request, &reply)]
            }
            "notifications/initialized" => vec![Fault::response("202 Accepted", JSON, "")],
            _ => prime(nth),
        }
    })
    .await;
    let caller = client(&server.url, TransportKind::StreamableHttp);
    let error = roll_within(&caller, Duration::from_secs(3)).await;
    assert!(error.is_timeout());
    let opened = gets(&server.requests.all());
    assert!((2..=10).contains(&opened), "{opened}");
    assert_eq!(server.requests.count("tools/call"), 1);
}

#[tokio::test]
async fn an_event_id_too_long_for_a_header_is_not_sent_back() {
    let (server, _client, mut subscription) = subscribed(move |nth, request| {
        assert_eq!(request.header("last-event-id"), "");
        let id = "x".repeat(5000);
        let first = format!("id: {id}\nretry: 0\n{LIST_CHANGED}");
        match nth {
            0 => stream(&first, Fault::Close),
            _ => stream(LIST_CHANGED, Fault::Hang),
        }
    })
    .await;
    hears(&mut subscription).await;
    hears(&mut subscription).await;
    assert_eq!(gets(&server.requests.all()), 2);
}

#[tokio::test]
async fn a_legacy_stream_that_closes_at_once_is_reopened_with_pauses() {
    let (server, client) = start(LEGACY_SSE, TransportKind::LegacySse);
    let _subscription = client.subscribe(tools_filter()).await.unwrap();
    let until = tokio::time::Instant::now() + Duration::from_secs(9);
    while tokio::time::Instant::now() < until {
        server.close_streams();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let opened = gets(&server.requests.all());
    // The client reconnects after 2 s, 4 s and 8 s, or down to half of that. Each handshake may be
    // repeated three times.
    assert!((2..=16).contains(&opened), "{opened}");
}

#[tokio::test]
async fn a_server_request_is_answered_after_its_stream_ended() {
    let question = json!({"id": "q1", "method": "sampling/createMessage", "params": {}});
    let question = format!("data: {question}\n\n");
    let server = listening_server(move |nth, _| match nth {
        0 => stream(&question, Fault::Close),
        _ => stream("data:\n\n", Fault::Hang),
    })
    .await;
    let callbacks = Callbacks::new().on_sampling(|_| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(json!({"model": "m"}))
    });
    let config = config(&server.url, TransportKind::StreamableHttp);
    let client = McpClient::with_callbacks(config, callbacks);
    client.connect().await.unwrap();
    eventually("the answer", || {
        let responses = server.requests.calls("");
        let answered = |response: &Recorded| response.json()["result"]["model"] == "m";
        responses.iter().any(answered)
    })
    .await;
}
