//! E8: every request contains the credentials.

use pillion_mcp_client::Authentication;

use super::*;

fn authentication(value: serde_json::Value) -> Authentication {
    serde_json::from_value(value).unwrap()
}

async fn requests_with(
    dialect: Dialect,
    transport: TransportKind,
    authentication: Authentication,
) -> Vec<Recorded> {
    let server = FakeMcp::start(dialect);
    let mut config = config(&server.url, transport);
    config.authentication = authentication;
    config.headers = [("X-Tenant".to_owned(), "t1".into())].into();
    let client = McpClient::new(config);
    roll(&client).await.unwrap();
    client.disconnect().await;
    server.requests.all()
}

#[tokio::test]
async fn e8_every_credential_is_in_every_request_of_every_transport() {
    let bearer = json!({"type": "bearer", "token": "t0k"});
    let other_header = json!({"type": "api-key", "key": "k3y", "header": "X-Other"});
    let basic = json!({"type": "basic", "username": "user", "password": "pass"});
    let credentials = [
        (bearer, "authorization", "Bearer t0k"),
        (json!({"type": "api-key", "key": "k3y"}), "x-api-key", "k3y"),
        (other_header, "x-other", "k3y"),
        (basic, "authorization", "Basic dXNlcjpwYXNz"),
        (json!({"type": "none"}), "authorization", ""),
    ];
    for (dialect, transport) in dialects() {
        for (credential, header, value) in &credentials {
            let credential = authentication(credential.clone());
            for request in requests_with(dialect.clone(), transport, credential).await {
                assert_eq!(request.header(header), *value, "{dialect:?}");
                assert_eq!(request.header("x-tenant"), "t1", "{dialect:?}");
                assert_lacks!(request.path, "token");
            }
        }
    }
}

#[tokio::test]
async fn e8_a_token_goes_into_the_query_only_if_configured() {
    let server = FakeMcp::start(Dialect::PostSse);
    let mut config = config(&server.url, TransportKind::PostSse);
    config.authentication = Authentication::bearer("a b&c");
    config.token_in_query = true;
    roll(&McpClient::new(config)).await.unwrap();
    let request = server.requests.all().remove(0);
    assert_eq!(request.path, "/sse?token=a+b%26c");
    assert_eq!(request.header("authorization"), "Bearer a b&c");
}

#[tokio::test]
async fn e8_a_header_that_cannot_be_sent_is_an_error_before_any_request() {
    let server = FakeMcp::start(Dialect::PostSse);
    let mut config = config(&server.url, TransportKind::PostSse);
    config.authentication = Authentication::bearer("hush\r\nX-Evil: 1");
    let error = roll(&McpClient::new(config)).await.unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("Invalid header 'authorization': ") && !message.contains("hush"));
    assert!(server.requests.all().is_empty());
}

#[tokio::test]
async fn e1_the_headers_of_a_request() {
    let server = FakeMcp::start(Dialect::PostSse);
    let client = client(&server.url, TransportKind::PostSse);
    roll(&client).await.unwrap();
    let request = server.requests.all().remove(0);
    assert_eq!(request.method, "POST");
    assert_eq!(request.header("content-type"), "application/json");
    let accept = "application/json, text/event-stream";
    assert_eq!(request.header("accept"), accept);
    let json = request.json();
    assert_eq!(json["jsonrpc"], "2.0");
    assert_starts_with!(json["id"].text(), "mcp_");
    assert_eq!(json["method"], "tools/call");
    let params = json!({"name": "roll", "arguments": {"dice": "1d20"}});
    assert_eq!(json["params"], params);
}
