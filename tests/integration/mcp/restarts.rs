//! Real servers that lose their sessions in a restart.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_a_restarted_server_gets_a_new_session() {
    for (name, transport) in [
        ("everything", TransportKind::Auto),
        ("everything-sse", TransportKind::Auto),
        ("sdk-json", TransportKind::StreamableHttp),
        ("mcp1-sse", TransportKind::LegacySse),
        ("mcp2-http", TransportKind::Auto),
    ] {
        let Some(peer) = Peer::new(name) else { return };
        let client = client(&peer.url, transport);
        let before = client.list_tools().await.unwrap().len();
        let peer = peer.restart();
        // The first call may use a connection that the old process closed; the second call uses a
        // new one.
        let mut after = client.request("tools/list", &json!({})).await;
        if after.is_err() {
            after = client.request("tools/list", &json!({})).await;
        }
        assert!(after.is_ok(), "{name}: {after:?}");
        assert_eq!(client.list_tools().await.unwrap().len(), before, "{name}");
        drop(peer);
    }
}
