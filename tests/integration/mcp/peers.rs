//! The client with the real servers of `tests/peers`.

use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{CallContext, ToolCall};
use pillion_mcp_client::Authentication;
use pillion_mcp_tools::McpTool;

use super::*;

async fn call(client: &McpClient, name: &str, arguments: Value) -> Value {
    let result = client.call_tool(name, &arguments).await;
    serde_json::from_str(result.unwrap().get()).unwrap()
}

/// Returns the text of a result's first block.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

async fn names(client: &McpClient) -> Vec<String> {
    let listed = client.list_tools().await.unwrap();
    let names = listed.iter().map(|tool| {
        let tool: Value = serde_json::from_str(tool.get()).unwrap();
        assert_eq!(tool["inputSchema"]["type"], "object");
        tool["name"].text().to_owned()
    });
    names.collect()
}

/// Makes twenty calls of `tool`, at most five concurrently; each has to return its own answer.
async fn twenty_in_parallel(client: &McpClient, tool: &str, arguments: fn(usize) -> Value) {
    let registry = Arc::new(ToolRegistry::new());
    for tool in McpTool::discover(client, "peer_").await.unwrap() {
        registry.register(tool).unwrap();
    }
    let executor = Executor::new(registry, ExecutorConfig::default());
    let name = format!("peer_{tool}");
    let calls = (0..20).map(|n| ToolCall::new(n.to_string(), name.clone(), arguments(n)));
    let context = CallContext::default();
    let results = executor.execute_parallel(calls.collect(), &context).await;
    for (n, result) in results.iter().enumerate() {
        let result = serde_json::to_value(result).unwrap();
        assert_json!(result["success"], true);
        let marker = format!("n{n}.");
        assert!(result.to_string().contains(&marker), "{result}");
    }
}

/// Checks the common features of the Python peers.
async fn check_python(client: &McpClient) {
    assert!(client.is_available().await);
    let names = names(client).await;
    for name in ["add", "echo", "fail", "unicode", "nothing"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    let sum = call(client, "add", json!({"a": 2, "b": 40})).await;
    assert_eq!(text(&sum), "42", "{sum}");
    let odd = "grüße 世界 🎲 \u{2028} end";
    let echo = call(client, "echo", json!({"text": odd})).await;
    assert_eq!(text(&echo), odd);
    assert_eq!(text(&call(client, "unicode", json!({})).await), odd);
    let failed = call(client, "fail", json!([])).await;
    assert_json!(failed["isError"], true);
    call(client, "nothing", json!([])).await;
    twenty_in_parallel(client, "echo", |n| json!({"text": format!("n{n}.")})).await;
    unknown_method(client).await;
    client.disconnect().await;
    client.connect().await.unwrap();
    let sum = call(client, "add", json!({"a": 1, "b": 1})).await;
    assert_eq!(text(&sum), "2");
    client.disconnect().await;
}

async fn unknown_method(client: &McpClient) {
    let error = client.request("no/such", &json!({})).await.unwrap_err();
    assert!(error.rpc_error().is_some(), "{error:?}");
}

/// Checks the features of `server-everything` with every transport.
async fn check_everything(client: &McpClient) {
    assert!(client.is_available().await);
    let names = names(client).await;
    assert!(names.iter().any(|name| name == "echo"), "{names:?}");
    let echo = call(client, "echo", json!({"message": "hi 🎲"})).await;
    assert_eq!(text(&echo), "Echo: hi 🎲");
    let sum = call(client, "get-sum", json!({"a": 2, "b": 40})).await;
    assert_contains!(text(&sum), "42");
    let failed = client.call_tool("echo", &json!({"message": 7})).await;
    match failed {
        Ok(result) => assert!(result.get().contains("\"isError\":true"), "{result}"),
        Err(error) => assert_eq!(error.class(), ErrorClass::InvalidInput),
    }
    twenty_in_parallel(client, "echo", |n| json!({"message": format!("n{n}.")})).await;
    unknown_method(client).await;
    client.disconnect().await;
    client.connect().await.unwrap();
    call(client, "echo", json!({"message": "again"})).await;
    client.disconnect().await;
}

/// Checks a peer with this transport and with the detected transport.
async fn check(name: &str, transport: TransportKind, check_client: impl AsyncFn(&McpClient)) {
    let Some(peer) = Peer::new(name) else { return };
    for transport in [transport, TransportKind::Auto] {
        check_client(&client(&peer.url, transport)).await;
    }
}

#[tokio::test]
async fn e7_everything_over_streamable_http() {
    check(
        "everything",
        TransportKind::StreamableHttp,
        check_everything,
    )
    .await;
}

#[tokio::test]
async fn e7_everything_over_legacy_sse() {
    check("everything-sse", TransportKind::LegacySse, check_everything).await;
}

#[tokio::test]
async fn e7_python_over_legacy_sse() {
    check("mcp1-sse", TransportKind::LegacySse, check_python).await;
}

#[tokio::test]
async fn e7_python_over_streamable_http() {
    check("mcp2-http", TransportKind::StreamableHttp, check_python).await;
}

#[tokio::test]
async fn e8_python_behind_a_bearer_token() {
    let Some(peer) = Peer::new("fastmcp-bearer") else {
        return;
    };
    for transport in [TransportKind::StreamableHttp, TransportKind::Auto] {
        let error = client(&peer.url, transport).list_tools().await.unwrap_err();
        assert_eq!(error.to_string(), "HTTP 401: Unauthorized");
        assert_eq!(error.class(), ErrorClass::Denied);
        let mut config = config(&peer.url, transport);
        config.authentication = Authentication::bearer("let-me-in");
        check_python(&McpClient::new(config)).await;
    }
}

#[tokio::test]
async fn e8_a_server_with_oauth_names_its_authorization_server() {
    for name in ["sdk-oauth", "fastmcp-oauth"] {
        let Some(peer) = Peer::new(name) else { return };
        let client = client(&peer.url, TransportKind::Auto);
        let error = client.list_tools().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Denied, "{name}");
        let McpErrorKind::HttpStatus {
            status: 401,
            challenge: Some(challenge),
            ..
        } = error.kind()
        else {
            panic!("{name}: {error:?}");
        };
        let (_, url) = challenge.split_once("resource_metadata=\"").unwrap();
        let metadata = get_json(url.split('"').next().unwrap()).await;
        assert_eq!(metadata["resource"], peer.url, "{name}");
        let server_url = metadata["authorization_servers"][0].text();
        let issuer = server_url.trim_end_matches('/');
        let server = format!("{issuer}/.well-known/oauth-authorization-server");
        let server = get_json(&server).await;
        assert!(server["token_endpoint"].is_string(), "{name}: {server}");
        assert!(server["registration_endpoint"].is_string(), "{name}");
    }
}

async fn get_json(url: &str) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client.get(url).send().await.unwrap();
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}
