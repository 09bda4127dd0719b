use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;

fn peer(callbacks: Callbacks) -> Arc<Peer> {
    Arc::new(Peer::new(callbacks, Arc::new(McpResultCache::default())))
}

fn say(peer: &Peer, message: &Value) -> Option<PendingResponse> {
    let messages = IncomingMessage::parse(&message.to_string()).unwrap();
    peer.handle_message(messages.into_iter().next().unwrap())
}

fn ask(peer: &Peer, id: &Value, method: &str, params: &Value) -> Option<PendingResponse> {
    say(peer, &json!({"id": id, "method": method, "params": params}))
}

/// Returns the response if it is ready, or else null.
fn answered(response: &mut PendingResponse) -> Value {
    let message = response.message.as_mut().now_or_never();
    message.flatten().map_or(Value::Null, |message| {
        serde_json::from_slice(&message).unwrap()
    })
}

#[test]
fn some_of_too_many_server_requests_are_answered_some_rejected_and_the_rest_dropped() {
    let peer = peer(Callbacks::new().on_sampling(|_| std::future::pending()));
    let mut responses = Vec::new();
    for id in 0..1000 {
        responses.extend(ask(&peer, &json!(id), "sampling/createMessage", &json!({})));
    }
    assert_eq!(responses.len(), 16 + 64);
    assert_eq!(peer.limits.dropped_count(), 1000 - 16 - 64);
    let sent: Vec<Value> = responses.iter_mut().map(answered).collect();
    assert!(sent[..16].iter().all(Value::is_null));
    assert_eq!(sent[16]["id"], 16);
    let mut rejected = sent[16..].iter();
    assert!(rejected.all(|sent| sent["error"]["code"] == -32000));
    // Requests that wait for a user do not delay a `ping`.
    responses.truncate(16);
    let mut ping = ask(&peer, &json!("p"), "ping", &json!({})).unwrap();
    assert_eq!(answered(&mut ping)["result"], json!({}));
    drop(responses);
    let mut next = ask(&peer, &json!(0), "sampling/createMessage", &json!({})).unwrap();
    assert!(answered(&mut next).is_null());
}

#[test]
fn waiting_requests_have_a_total_size_and_long_ids_are_not_sent_back() {
    let peer = peer(Callbacks::new().on_sampling(|_| std::future::pending()));
    let large = json!({"text": "x".repeat(10 * 1024 * 1024)});
    let mut responses = Vec::new();
    for id in 0..5 {
        responses.extend(ask(&peer, &json!(id), "sampling/createMessage", &large));
    }
    let sent = responses.iter_mut().map(answered);
    assert_eq!(sent.filter(|sent| !sent.is_null()).count(), 2);
    let long = json!("i".repeat(2000));
    assert!(ask(&peer, &long, "ping", &json!({})).is_none());
    assert!(ask(&peer, &long, "sampling/createMessage", &json!({})).is_none());
    assert_eq!(peer.limits.dropped_count(), 2);
}

#[tokio::test]
async fn notifications_that_are_too_large_or_for_slow_listeners_are_dropped() {
    let peer = peer(Callbacks::new());
    let mut received = peer.subscribe_to_notifications();
    let notice = |bytes: usize| {
        let params = json!({"text": "x".repeat(bytes)});
        json!({"method": "notifications/message", "params": params})
    };
    say(&peer, &notice(70_000));
    assert_eq!(peer.limits.dropped_count(), 1);
    say(&peer, &notice(60_000));
    assert_eq!(received.recv().await.unwrap().params.get().len(), 60_011);

    let (sender, mut subscribed) = mpsc::channel(2);
    let id = RpcRequestId::Number(7);
    let _routed = peer.route_notifications(id, sender);
    for _ in 0..5 {
        let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 7}});
        let change = json!({"method": "notifications/tools/list_changed", "params": params});
        say(&peer, &change);
    }
    assert_eq!(peer.limits.dropped_count(), 4);
    assert!(subscribed.recv().await.is_some());
}

#[test]
fn progress_that_is_too_large_is_dropped() {
    let peer = peer(Callbacks::new());
    let received = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&received);
    let (token, _guard) = peer.track_progress(Arc::new(move |progress: ProgressNotification| {
        notes.lock().push(progress.progress);
    }));
    for (progress, bytes) in [(1, 10), (2, 70_000), (3, 10)] {
        let message = "x".repeat(bytes);
        let params = json!({"progressToken": token, "progress": progress, "message": message});
        let note = json!({"method": "notifications/progress", "params": params});
        say(&peer, &note);
    }
    assert_eq!(*received.lock(), [1.0, 3.0]);
    assert_eq!(peer.limits.dropped_count(), 1);
}

#[tokio::test]
async fn a_cancelled_server_request_is_not_answered() {
    let peer = peer(Callbacks::new().on_sampling(|_| std::future::pending()));
    let ask = |id: Value| ask(&peer, &id, "sampling/createMessage", &json!({})).unwrap();
    let (first, mut second) = (ask(json!("q1")), ask(json!(2)));
    let cancelled =
        |id: Value| json!({"method": "notifications/cancelled", "params": {"requestId": id}});
    for odd in [json!("q2"), json!(null), json!({})] {
        say(&peer, &cancelled(odd));
    }
    say(&peer, &cancelled(json!("q1")));
    assert!(first.message.await.is_none());
    assert!(answered(&mut second).is_null());
    drop(second);
    // Both requests have finished, so their ID can be used again.
    say(&peer, &cancelled(json!(2)));
    let third = ask(json!(2));
    say(&peer, &cancelled(json!(2)));
    assert!(third.message.await.is_none());
}
