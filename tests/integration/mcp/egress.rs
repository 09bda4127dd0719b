//! Requests that the egress policy forbids.

use pillion_egress::EgressError;

use super::*;

#[tokio::test]
async fn a_forbidden_url_is_denied_over_every_transport() {
    for (url, text) in [
        (
            "http://mcp.example/mcp?token=hush",
            "plain http to 'mcp.example' is not allowed: use https, or name the host in egress.allow_http",
        ),
        (
            "https://169.254.169.254/latest?token=hush",
            "connections to the link-local address 169.254.169.254 are not allowed",
        ),
        (
            "https://[::ffff:169.254.169.254]/",
            "connections to the link-local address ::ffff:169.254.169.254 are not allowed",
        ),
        (
            "https://0/",
            "connections to the unspecified address 0.0.0.0 are not allowed",
        ),
    ] {
        for (_, transport) in dialects() {
            let config = config(url, transport);
            assert_eq!(config.validate().unwrap_err().to_string(), text);
            let error = roll(&McpClient::new(config)).await.unwrap_err();
            assert_matches!(error.kind(), McpErrorKind::Egress(_));
            assert_eq!(error.class(), ErrorClass::Denied);
            assert!(error.to_string().ends_with(text), "{error}");
        }
    }
}

#[tokio::test]
async fn a_local_name_is_resolved_and_denied_by_the_policy() {
    let server = FaultServer::start(good_response).await;
    let url = server.url.replace("127.0.0.1", "localhost");
    let mut config = config(&url, TransportKind::PostSse);
    config.egress = serde_json::from_value(json!({"allow_loopback": false})).unwrap();
    let error = roll(&McpClient::new(config.clone())).await.unwrap_err();
    assert_matches!(
        error.kind(),
        McpErrorKind::Egress(EgressError::Resolved { .. })
    );
    assert_eq!(error.class(), ErrorClass::Denied);
    assert!(server.requests.all().is_empty());

    let policy = json!({"allow_loopback": false, "allow_networks": ["127.0.0.0/8", "::1"]});
    config.egress = serde_json::from_value(policy).unwrap();
    let result = roll(&McpClient::new(config)).await;
    assert_eq!(result.unwrap().get(), ROLLED);
}

#[tokio::test]
async fn loopback_addresses_in_any_notation_may_use_plain_http() {
    let server = FaultServer::start(good_response).await;
    for host in ["2130706433", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let url = server.url.replace("127.0.0.1", host);
        let client = McpClient::new(config(&url, TransportKind::PostSse));
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED, "{host}");
    }
}

#[tokio::test]
async fn a_redirect_to_a_metadata_address_is_not_followed() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://[::ffff:169.254.169.254]/",
        "//169.254.169.254/",
    ] {
        let response = vec![Fault::redirect("307 Elsewhere", location)];
        let server = FaultServer::start(move |_| response.clone()).await;
        let client = McpClient::new(config(&server.url, TransportKind::PostSse));
        let error = roll(&client).await.unwrap_err();
        assert_matches!(error.kind(), McpErrorKind::Redirect);
    }
}
