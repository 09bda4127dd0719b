//! A fault of one call does not affect concurrent calls in the same session.

use super::*;

const SIBLINGS: usize = 12;

/// Returns whether a request is the call with the fault.
fn is_bad(message: &Value) -> bool {
    message["params"]["arguments"]["bad"] == true
}

#[tokio::test]
async fn a_fault_affects_only_its_call() {
    for (case, faults) in faults() {
        let server = FaultServer::start(move |request| {
            if is_bad(&request.json()) {
                return faults.clone();
            }
            let mut response = in_session(request);
            if request.rpc_method() == "tools/call" {
                response.insert(0, Fault::Wait(Duration::from_millis(150)));
            }
            response
        })
        .await;
        let timeout = Duration::from_secs(2);
        let client = client_within(&server.url, TransportKind::StreamableHttp, timeout);
        let started = Instant::now();
        let calls = (0..=SIBLINGS).map(|n| {
            let client = client.clone();
            let arguments = json!({"n": n, "bad": n == SIBLINGS / 2});
            tokio::spawn(async move {
                let result = client.call_tool("echo", &arguments).await;
                (arguments, result)
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let (arguments, result) = call.await.unwrap();
            if arguments["bad"] == true {
                use ErrorClass::{Internal, Timeout, Unavailable};
                let error = result.unwrap_err();
                let expected = [Unavailable, Timeout, Internal];
                assert!(expected.contains(&error.class()), "{case}: {error:?}");
                continue;
            }
            let result = result.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(result.get(), arguments.to_string(), "{case}");
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{case}");
        // Every call was sent once, in one session.
        assert_eq!(server.requests.count("tools/call"), SIBLINGS + 1, "{case}");
        assert_eq!(server.requests.count("initialize"), 1, "{case}");
    }
}

#[tokio::test]
async fn dead_connections_are_replaced() {
    let dark = Arc::new(AtomicBool::new(false));
    let is_dark = Arc::clone(&dark);
    let server = FaultServer::start(move |request| {
        if is_dark.load(Ordering::SeqCst) {
            return vec![Fault::Hang];
        }
        let mut response = in_session(request);
        response.insert(0, Fault::Wait(Duration::from_millis(50)));
        response
    })
    .await;
    let timeout = Duration::from_millis(700);
    let client = client_within(&server.url, TransportKind::StreamableHttp, timeout);
    let five_calls = async || {
        let calls = (0..5).map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("echo", &json!({"n": n})).await })
        });
        let mut outcomes = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            outcomes.push(call.await.unwrap());
        }
        outcomes
    };
    assert!(five_calls().await.iter().all(Result::is_ok));
    // Five connections are open, and none of them will respond again.
    dark.store(true, Ordering::SeqCst);
    for outcome in five_calls().await {
        assert!(outcome.unwrap_err().is_timeout());
    }
    dark.store(false, Ordering::SeqCst);
    for outcome in five_calls().await {
        outcome.unwrap();
    }
}
