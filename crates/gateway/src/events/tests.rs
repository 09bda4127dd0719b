use pillion_core::store::ApprovalRecord;

use super::*;
use crate::test_support::approval;

fn publish(bus: &EventBus, count: usize) {
    for _ in 0..count {
        bus.publish(&Event::ConfigurationReloaded { error: None });
    }
}

async fn next(listener: &mut Listener) -> String {
    let bytes = tokio::time::timeout(Duration::from_secs(5), listener.next()).await;
    String::from_utf8(bytes.unwrap().unwrap().to_vec()).unwrap()
}

fn last_id(text: &str) -> String {
    let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.next_back().unwrap().to_owned()
}

#[tokio::test]
async fn a_listener_resumes_after_its_last_event() {
    let bus = Arc::<EventBus>::default();
    let mut listener = bus.listen(None, EventKinds::default());
    let hello = next(&mut listener).await;
    assert!(hello.contains("event: ready"), "{hello}");
    drop(listener);
    // A listener that has received no event can also resume.
    publish(&bus, 2);
    let mut listener = bus.listen(Some(&last_id(&hello)), EventKinds::default());
    assert_eq!(next(&mut listener).await, ": again\n\n");
    let events = next(&mut listener).await;
    assert_eq!(events.matches("event: configuration.reloaded").count(), 2);
    drop(listener);
    publish(&bus, 1);
    let mut listener = bus.listen(Some(&last_id(&events)), EventKinds::default());
    next(&mut listener).await;
    let events = next(&mut listener).await;
    assert_eq!(events.matches("event:").count(), 1);
}

#[tokio::test]
async fn an_expired_or_unknown_event_id_is_reported() {
    let bus = Arc::<EventBus>::default();
    let mut listener = bus.listen(None, EventKinds::default());
    let hello = next(&mut listener).await;
    publish(&bus, MAX_EVENTS + 1);
    let missed = next(&mut listener).await;
    assert!(missed.contains("event: reset"), "{missed}");
    assert!(missed.contains("too_slow"), "{missed}");
    let reloaded = next(&mut listener).await;
    assert!(reloaded.contains("event: configuration.reloaded"));
    let mut late = bus.listen(Some(&last_id(&hello)), EventKinds::default());
    next(&mut late).await;
    assert!(next(&mut late).await.contains("event: reset"));
    let future = format!("{}-999999", bus.epoch);
    for unknown in ["deadbeef-3", "nonsense", "", &future] {
        let mut listener = bus.listen(Some(unknown), EventKinds::default());
        let text = next(&mut listener).await;
        assert!(text.contains("event: reset"), "{unknown}");
    }
    assert!(bus.ring.lock().bytes <= MAX_RING_BYTES);
}

#[tokio::test]
async fn call_events_are_stored_for_reconnecting_listeners() {
    let bus = Arc::<EventBus>::default();
    let call = |bus: &EventBus| {
        let call = ToolCall::new("1", "x", serde_json::Value::Null);
        bus.on_started(&call, None, &CallContext::default());
    };
    call(&bus);
    assert!(bus.ring.lock().events.is_empty());
    let mut listener = bus.listen(None, EventKinds::default());
    let hello = next(&mut listener).await;
    drop(listener);
    call(&bus);
    let mut listener = bus.listen(Some(&last_id(&hello)), EventKinds::default());
    next(&mut listener).await;
    assert!(next(&mut listener).await.contains("event: call.pending"));
    drop(listener);
    // After `RESUME_TTL` without listeners, calls are no longer recorded, so the listener is reset.
    bus.last_disconnected_at.store(0, Ordering::Relaxed);
    call(&bus);
    let mut listener = bus.listen(Some(&last_id(&hello)), EventKinds::default());
    next(&mut listener).await;
    assert!(next(&mut listener).await.contains("event: reset"));
}

#[tokio::test]
async fn event_types_are_selected_by_name_and_group() {
    assert!(EventKinds::parse("call,nothing").is_none());
    let bus = Arc::<EventBus>::default();
    let mut listener = bus.listen(None, EventKinds::parse("server, approval.decided").unwrap());
    next(&mut listener).await;
    publish(&bus, 3);
    bus.publish(&Event::ServerStatus {
        server: "far",
        status: "connected",
        error: None,
    });
    let events = next(&mut listener).await;
    assert_eq!(events.matches("event:").count(), 1);
    assert!(events.contains("event: server.status"), "{events}");
    bus.close();
    assert!(listener.next().await.is_none());
}

#[tokio::test]
async fn l1_a_listener_of_one_user_receives_no_events_of_other_users() {
    let bus = Arc::<EventBus>::default();
    let listen = || bus.listen(None, EventKinds::default());
    let mut hers = listen().for_user(Some("alice".to_owned()));
    let mut all = listen();
    for listener in [&mut hers, &mut all] {
        next(listener).await;
    }
    for (user, is_user_verified) in [
        (None, false),
        (Some("bob"), true),
        (Some("alice"), false),
        (Some("alice"), true),
    ] {
        let context = CallContext {
            user: user.map(str::to_owned),
            is_user_verified,
            principal: Some(format!("token:{is_user_verified}")),
            ..CallContext::default()
        };
        bus.on_started(&ToolCall::new("c", "echo", json!({})), None, &context);
        let approval = ApprovalRecord {
            user: context.user.clone(),
            user_is_verified: is_user_verified,
            principal: context.principal.clone(),
            ..approval("a", Duration::ZERO)
        };
        bus.publish(&Event::ApprovalRequested(&approval));
        bus.publish(&Event::ChatStopped {
            chat: "1",
            model: "demo",
            status: "answered",
            context: &context,
        });
    }
    publish(&bus, 1);
    for (listener, expected) in [(&mut hers, 1), (&mut all, 4)] {
        let events = next(listener).await;
        let count = |kind: &str| events.matches(&format!("event: {kind}\n")).count();
        assert_eq!(count("call.pending"), expected, "{events}");
        assert_eq!(count("approval.requested"), expected, "{events}");
        assert_eq!(count("chat.stopped"), expected, "{events}");
        // Events without a user are for all listeners.
        assert_eq!(count("configuration.reloaded"), 1, "{events}");
        // All kinds of events name the principal of the verified user's call.
        let alices = |is_verified: bool| {
            let text = format!(r#""user":"alice","user_is_verified":{is_verified}"#);
            events.matches(&text).count()
        };
        assert_eq!(alices(true), 3);
        assert_eq!(alices(false), if expected == 1 { 0 } else { 3 }, "{events}");
        assert!(events.contains(r#""principal":"token:true""#), "{events}");
    }
}
