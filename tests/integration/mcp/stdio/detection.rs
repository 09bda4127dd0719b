//! The first request to a program, and how its response, or silence, is interpreted.

use pillion_mcp_client::{Handshake, ProtocolVersion};

use super::*;

/// Returns the methods that the program has received up to this call.
async fn seen(client: &McpClient) -> Vec<Value> {
    let seen = call(client, "seen", json!({})).await["seen"].clone();
    seen.items().clone()
}

const HANDSHAKE: [&str; 3] = ["initialize", "notifications/initialized", "tools/call"];

#[tokio::test]
async fn e6_a_program_without_discover_gets_the_handshake() {
    let client = fake(&[]);
    let seen = seen(&client).await;
    assert_eq!(seen[0], "server/discover");
    assert_eq!(seen[1..], HANDSHAKE);
    let connection = client.connection().await.unwrap();
    assert_eq!(connection.transport, TransportKind::Stdio);
    let revision = Some(ProtocolVersion::V2025_11_25);
    assert_eq!(connection.protocol_version, revision);
    let tried: Vec<_> = connection
        .steps
        .iter()
        .map(|step| step.attempt.as_str())
        .collect();
    let expected = [
        "stdio server/discover (2026-07-28)",
        "stdio initialize (2025-11-25)",
    ];
    assert_eq!(tried, expected);
}

#[tokio::test]
async fn e6_a_program_that_exits_on_discover_is_restarted_for_the_handshake() {
    let client = fake(&["exit-on-discover"]);
    assert_eq!(seen(&client).await, HANDSHAKE);
}

#[tokio::test]
async fn e6_a_program_that_is_silent_on_discover_gets_the_handshake_after_a_short_wait() {
    let client = fake(&["silent-on-discover"]);
    let before = std::time::Instant::now();
    assert_eq!(seen(&client).await[1..], HANDSHAKE);
    assert!(before.elapsed() < std::time::Duration::from_secs(8));
}

#[tokio::test]
async fn e6_a_program_without_handshake_gets_requests_of_its_revision() {
    // The second program receives `server/discover`, then the handshake, and answers both late.
    for flags in [&["modern"][..], &["modern", "slow-start"]] {
        let client = fake(flags);
        let response = call(&client, "meta", json!({})).await;
        let version = &response["meta"]["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(version, "2026-07-28", "{flags:?}");
        let connection = client.connection().await.unwrap();
        let revision = Some(ProtocolVersion::V2026_07_28);
        assert_eq!(connection.protocol_version, revision);
        let seen = response["seen"].items();
        let initialized = json!("notifications/initialized");
        assert!(!seen.contains(&initialized), "{response}");
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn e6_known_and_pinned_revisions_are_not_detected_again() {
    let client = fake(&[]);
    let first = pid(&client).await;
    client.call_tool("kill", &json!({})).await.unwrap_err();
    assert_eq!(seen(&client).await, HANDSHAKE);
    assert_ne!(pid(&client).await, first);

    let mut config = fake_config(&[]);
    config.protocol_version = Some(ProtocolVersion::V2025_06_18);
    assert_eq!(seen(&McpClient::new(config)).await, HANDSHAKE);

    let mut config = fake_config(&[]);
    config.handshake = Handshake::Never;
    assert_eq!(seen(&McpClient::new(config)).await, ["tools/call"]);
}

#[tokio::test]
async fn e6_an_upgraded_or_downgraded_program_is_detected_again() {
    let directory = tempfile::tempdir().unwrap();
    let upgraded = directory.path().join("upgraded");
    let flag = format!("modern-if:{}", upgraded.display());
    let client = fake(&[&flag, "strict"]);
    let version = async || client.connection().await.unwrap().protocol_version;
    for _ in 0..2 {
        crate::mcp::roll(&client).await.unwrap();
        assert_eq!(version().await, Some(ProtocolVersion::V2025_11_25));
        std::fs::write(&upgraded, "").unwrap();
        client.call_tool("kill", &json!({})).await.unwrap_err();
        crate::mcp::roll(&client).await.unwrap();
        assert_eq!(version().await, Some(ProtocolVersion::V2026_07_28));
        std::fs::remove_file(&upgraded).unwrap();
        client.call_tool("kill", &json!({})).await.unwrap_err();
    }
}

#[tokio::test]
async fn an_echoing_program_is_not_taken_for_a_server() {
    let cat = |handshake| {
        let mut config = ServerConfig::for_command("cat", StdioCommand::new("cat"));
        config.handshake = handshake;
        McpClient::new(config)
    };
    let is_echo = |kind: &McpErrorKind| matches!(kind, McpErrorKind::Echo);
    let error = cat(Handshake::Auto).connect().await.unwrap_err();
    assert!(is_echo(error.kind()), "{error}");
    // Without a handshake, the revision is detected with the first request.
    let error = cat(Handshake::Never).list_tools().await.unwrap_err();
    assert!(is_echo(error.kind()), "{error}");
}
