use super::*;

#[test]
fn since_2026_07_28_a_disconnect_cancels() {
    let sidecar = Sidecar::start();
    let sleep = json!({"name": "sleep", "arguments": {"ms": 25_000}});
    let (headers, body) = stateless("tools/call", sleep, json!({}));
    let stream = sidecar.begin("POST", "/mcp", &headers, body.to_string());
    sidecar.wait_for_sleeps(1);
    assert_eq!(sidecar.sleeps_ended.load(Ordering::SeqCst), 0);
    drop(stream);
    eventually("the call is given up", || {
        sidecar.sleeps_ended.load(Ordering::SeqCst) == 1
    });
}

#[test]
fn before_2026_07_28_only_a_notification_cancels() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let call = |id: &str| call_request(id, "sleep", json!({"ms": 25_000}));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.stream(&call("one")).next());
        sidecar.wait_for_sleeps(1);
        let cancel = cancellation("one");
        assert_eq!(session.send(&cancel).status, 202);
        // The cancelled request has no response.
        assert_eq!(waiting.join().unwrap(), None);
    });
    assert_eq!(sidecar.sleeps_ended.load(Ordering::SeqCst), 1);

    let body = call("two").to_string();
    let stream = sidecar.begin("POST", "/mcp", &session.headers, body);
    sidecar.wait_for_sleeps(2);
    drop(stream);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(sidecar.sleeps_ended.load(Ordering::SeqCst), 1);
    // The end of the session ends its requests.
    let ended = sidecar.send("DELETE", "/mcp", &session.headers, b"");
    assert_eq!(ended.status, 200);
    eventually("the call is given up", || {
        sidecar.sleeps_ended.load(Ordering::SeqCst) == 2
    });
}
