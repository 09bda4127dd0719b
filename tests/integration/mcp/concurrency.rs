//! Many concurrent calls of one client.

use super::*;

const CALLS: u64 = 50;

/// Starts a server whose responses have the reverse order of the calls.
fn reversing(dialect: Dialect) -> FakeMcp {
    FakeMcp::start_with(dialect, "tools/call", |params| {
        let n = params["arguments"]["n"].as_u64().unwrap();
        let delay = Duration::from_millis((CALLS - n) * 6);
        Reply::result(&json!({"n": n})).after(delay)
    })
}

#[tokio::test]
async fn fifty_concurrent_calls_in_one_session_get_their_own_responses() {
    for (dialect, pinned) in dialects() {
        for transport in [pinned, TransportKind::Auto] {
            let server = reversing(dialect.clone());
            let client = client(&server.url, transport);
            let calls = (0..CALLS).map(|n| {
                let client = client.clone();
                tokio::spawn(async move { client.call_tool("n", &json!({"n": n})).await })
            });
            for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
                let result = call.await.unwrap().unwrap();
                let result: Value = serde_json::from_str(result.get()).unwrap();
                assert_eq!(result["n"], n, "{dialect:?}");
            }
            assert_eq!(server.requests.count("tools/call") as u64, CALLS);
            let notifications = server.requests.count("notifications/initialized");
            let expected = usize::from(dialect != Dialect::PostSse);
            assert_eq!(notifications, expected, "{dialect:?} as {transport:?}");
            assert!(server.open_streams() <= 1);
        }
    }
}

#[tokio::test]
async fn callers_share_one_connection_attempt_with_separate_deadlines() {
    let server = FakeMcp::start_with(Dialect::StreamableJson, "initialize", |_| {
        Reply::raw_result("{}").after(Duration::from_millis(600))
    });
    let client = client(&server.url, TransportKind::StreamableHttp);
    roll_at_once(&client, 20).await;
    assert_eq!(server.requests.count("initialize"), 1);
}

#[tokio::test]
async fn a_caller_cancelled_while_connecting_blocks_no_other() {
    let first = AtomicBool::new(true);
    let server = FakeMcp::start_with(Dialect::StreamableJson, "initialize", move |_| {
        let slow = first.swap(false, Ordering::SeqCst);
        let delay = if slow { 60 } else { 0 };
        Reply::raw_result("{}").after(Duration::from_secs(delay))
    });
    let timeout = Duration::from_secs(2);
    let client = client_within(&server.url, TransportKind::StreamableHttp, timeout);
    let impatient = tokio::time::timeout(Duration::from_millis(500), roll(&client)).await;
    assert!(impatient.is_err());
    // The next caller waits for the same attempt, and starts another when that fails.
    roll(&client).await.unwrap();
    assert_eq!(server.requests.count("initialize"), 2);
}

#[tokio::test]
async fn a_timeout_affects_only_its_call() {
    for (dialect, transport) in dialects() {
        let server = FakeMcp::start_with(dialect.clone(), "slow", |_| {
            Reply::raw_result("1").after(Duration::from_secs(60))
        });
        let client = client_within(&server.url, transport, Duration::from_millis(1500));
        roll(&client).await.unwrap();
        let slow = client.clone();
        let slow = tokio::spawn(async move { slow.request("slow", &json!({})).await });
        roll(&client).await.unwrap();
        let error = slow.await.unwrap().unwrap_err();
        assert!(error.is_timeout(), "{dialect:?}: {error:?}");
        roll(&client).await.unwrap();
    }
}
