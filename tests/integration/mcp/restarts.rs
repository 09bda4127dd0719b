//! Real servers that forget their sessions, as they do whenever they are restarted.

use pillion_core::mcp::TransportKind;
use pillion_testkit::Peer;
use serde_json::json;

use super::client;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_a_restarted_server_gets_a_new_session() {
    for (name, transport) in [
        ("everything", TransportKind::Auto),
        ("everything-sse", TransportKind::Auto),
        ("sdk-json", TransportKind::StreamableHttp),
        ("mcp1-sse", TransportKind::LegacySse),
        ("mcp2-http", TransportKind::Auto),
    ] {
        let Some(peer) = Peer::start(name) else {
            return;
        };
        let client = client(&peer.url, transport);
        let before = client.list_tools().await.unwrap().len();
        let peer = peer.restart();
        // A connection that the old process closed may be met first; not a second time.
        let mut after = client.request("tools/list", &json!({})).await;
        if after.is_err() {
            after = client.request("tools/list", &json!({})).await;
        }
        assert!(after.is_ok(), "{name}: {after:?}");
        assert_eq!(client.list_tools().await.unwrap().len(), before, "{name}");
        drop(peer);
    }
}
