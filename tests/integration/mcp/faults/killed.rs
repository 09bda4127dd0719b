//! Real servers that are killed during a call, and restarted.

use super::*;

/// The names and arguments of a tool that works, and of a tool that takes very long.
type Tools = [(&'static str, Value); 2];

fn everything() -> Tools {
    let long = json!({"duration": 600, "steps": 2});
    [
        ("echo", json!({"message": "hi"})),
        ("trigger-long-running-operation", long),
    ]
}

fn python() -> Tools {
    [
        ("echo", json!({"text": "hi"})),
        ("slow", json!({"seconds": 600})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_a_server_killed_during_a_call_fails_that_call_and_is_reconnected() {
    for (name, transport, tools) in [
        ("everything", TransportKind::StreamableHttp, everything()),
        ("everything-sse", TransportKind::LegacySse, everything()),
        ("mcp1-sse", TransportKind::Auto, python()),
        ("mcp2-http", TransportKind::Auto, python()),
    ] {
        let Some(peer) = Peer::new(name) else { return };
        let [(good, good_arguments), (long, long_arguments)] = tools;
        let client = client(&peer.url, transport);
        client.call_tool(good, &good_arguments).await.unwrap();
        let calling = client.clone();
        let call =
            tokio::spawn(async move { calling.call_tool(long, &long_arguments).await.map(drop) });
        // The call is running, and other calls succeed meanwhile.
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.call_tool(good, &good_arguments).await.unwrap();
        assert!(!call.is_finished(), "{name}");
        let killed = Instant::now();
        let peer = peer.kill_and_restart();
        eventually("the call's end", || call.is_finished()).await;
        let error = call.await.unwrap().unwrap_err();
        assert!(killed.elapsed() < Duration::from_secs(15), "{name}");
        assert_matches!(
            error.class(),
            ErrorClass::Unavailable | ErrorClass::Internal,
            "{name}"
        );
        // The first call may use a connection that the old process closed; the second call uses a
        // new one.
        if client.call_tool(good, &good_arguments).await.is_err() {
            client.call_tool(good, &good_arguments).await.unwrap();
        }
        drop(peer);
    }
}
