//! The MCP client against servers of every dialect, misbehaving servers, and the real servers of
//! `tests/peers`.

mod authentication;
mod bad_bodies;
mod bad_connections;
mod bad_streams;
mod concurrency;
mod detection;
mod egress;
mod errors;
mod faults;
mod handshake;
mod handshake_era;
mod lifecycle;
mod listening;
mod oauth;
mod peers;
mod redirects;
mod restarts;
mod results;
mod secrets;
mod sessions;
mod shapes;
mod stateless;
mod stdio;
mod structured;
mod tasks;
mod transports;
mod websocket;

use pillion_mcp_client::{
    ErrorClass, McpClient, McpError, McpErrorKind, RequestOptions, ServerConfig,
    SubscriptionFilter, TransportKind,
};
use pillion_testkit::{Endpoint, Recorded, Recorder, Reply};
use serde_json::value::RawValue;

use crate::prelude::*;

/// The result of a successful call of `roll`.
const ROLLED: &str = r#"{"total":15,"rolls":[15]}"#;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

const LEGACY_SSE: Dialect = Dialect::LegacySse(Endpoint::Relative);

/// Returns a filter for changes of the list of tools.
fn tools_filter() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: true,
        ..SubscriptionFilter::default()
    }
}

/// Returns a filter for changes of the resource `file:///a`.
fn file_filter() -> SubscriptionFilter {
    SubscriptionFilter {
        resources: vec!["file:///a".to_owned()],
        ..SubscriptionFilter::default()
    }
}

/// Returns every dialect with the transport that pins it.
fn dialects() -> [(Dialect, TransportKind); 6] {
    [
        (Dialect::PostSse, TransportKind::PostSse),
        (Dialect::PlainHttp, TransportKind::Http),
        (Dialect::GetSse, TransportKind::GetSse),
        (LEGACY_SSE, TransportKind::LegacySse),
        (Dialect::StreamableJson, TransportKind::StreamableHttp),
        (Dialect::StreamableSse, TransportKind::StreamableHttp),
    ]
}

/// Returns a configuration whose deadline only ends a test that hangs.
fn config(url: &str, transport: TransportKind) -> ServerConfig {
    let mut config = ServerConfig::new("test", url).unwrap();
    config.transport = transport;
    config.timeout = Duration::from_secs(20);
    config
}

fn client(url: &str, transport: TransportKind) -> McpClient {
    McpClient::new(config(url, transport))
}

/// Like [`client`], with this timeout of each request.
fn client_within(url: &str, transport: TransportKind, timeout: Duration) -> McpClient {
    let mut config = config(url, transport);
    config.timeout = timeout;
    McpClient::new(config)
}

/// Starts a server, and a client with this transport.
fn start(dialect: Dialect, transport: TransportKind) -> (FakeMcp, McpClient) {
    let server = FakeMcp::start(dialect);
    let client = client(&server.url, transport);
    (server, client)
}

async fn roll(client: &McpClient) -> Result<Box<RawValue>, McpError> {
    client.call_tool("roll", &json!({"dice": "1d20"})).await
}

/// Makes a call with a new client, which has to fail.
async fn roll_error(url: &str, transport: TransportKind) -> McpError {
    roll(&client(url, transport)).await.unwrap_err()
}

/// Makes a call with this timeout, which has to fail.
async fn roll_within(client: &McpClient, timeout: Duration) -> McpError {
    let options = RequestOptions::default().timeout(timeout);
    let call = client.call_tool_with_options("roll", &(), &options);
    call.await.unwrap_err()
}

/// Makes this many calls at once, all of which have to succeed.
async fn roll_at_once(client: &McpClient, count: usize) {
    let calls: Vec<_> = (0..count)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { roll(&client).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

/// Returns a good response to a request as an event stream.
fn good_response(request: &Recorded) -> Vec<Fault> {
    let response = Reply::raw_result(ROLLED).response(&request.rpc_id());
    let event = format!("data: {response}\n\n");
    vec![Fault::response("200 OK", EVENT_STREAM, event)]
}

/// Answers like a server with sessions; every tool returns its arguments.
fn in_session(request: &Recorded) -> Vec<Fault> {
    let message = request.json();
    let result = match request.rpc_method().as_str() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
        "tools/call" => message["params"]["arguments"].clone(),
        "" | "notifications/initialized" | "notifications/cancelled" => {
            return vec![Fault::text("202 Accepted", "")];
        }
        _ => json!({}),
    };
    let response = Reply::result(&result).response(&request.rpc_id());
    let headers = [("Content-Type", JSON), ("Mcp-Session-Id", "s1")];
    vec![Fault::response_with("200 OK", &headers, response)]
}

/// Starts a server that answers the first request with these faults, and all others correctly.
async fn faulty_once(faults: Vec<Fault>) -> FaultServer {
    let first = std::sync::Mutex::new(Some(faults));
    FaultServer::start(move |request| {
        let faults = first.lock().unwrap().take();
        faults.unwrap_or_else(|| good_response(request))
    })
    .await
}

/// The expected failure of a call.
struct Failure {
    class: ErrorClass,
    text: &'static str,
    kind: fn(&McpErrorKind) -> bool,
}

impl Failure {
    const fn internal(text: &'static str, kind: fn(&McpErrorKind) -> bool) -> Self {
        let class = ErrorClass::Internal;
        Self { class, text, kind }
    }

    const fn unavailable(text: &'static str, kind: fn(&McpErrorKind) -> bool) -> Self {
        let class = ErrorClass::Unavailable;
        Self { class, text, kind }
    }

    fn check(&self, error: &McpError, case: &str) {
        assert!((self.kind)(error.kind()), "{case}: {error:?}");
        assert_eq!(error.class(), self.class, "{case}");
        assert_eq!(error.to_string(), self.text, "{case}");
    }
}

/// Makes a call during which these faults occur, and which must fail as expected. The next call
/// with the same client must succeed. Each call is sent once.
async fn fails_then_works(case: &str, faults: Vec<Fault>, failure: &Failure) {
    fails_then_works_with(case, faults, failure, |_| {}).await;
}

async fn fails_then_works_with(
    case: &str,
    faults: Vec<Fault>,
    failure: &Failure,
    change: impl FnOnce(&mut ServerConfig),
) {
    let server = faulty_once(faults).await;
    let mut config = config(&server.url, TransportKind::PostSse);
    change(&mut config);
    let client = McpClient::new(config);
    let error = roll(&client).await.unwrap_err();
    failure.check(&error, case);
    let result = roll(&client).await;
    assert_eq!(result.unwrap().get(), ROLLED, "{case}: afterwards");
    assert_eq!(server.requests.count("tools/call"), 2, "{case}");
}

/// Waits until a server has received this number of requests with a method.
async fn received(requests: &Recorder, method: &str, count: usize) {
    eventually(method, || requests.count(method) == count).await;
}

/// Waits until a condition holds.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 10 s: {what}");
}
