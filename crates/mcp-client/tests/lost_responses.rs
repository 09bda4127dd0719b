//! A server accepts a tool call and loses its response. Whatever the server answers to the request
//! that resumes the stream, the client sends the call once, and the call's error says that the tool
//! may have run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillion_mcp_client::{ErrorClass, McpClient, ServerConfig, TransportKind};
use pillion_testkit::{Fault, FaultServer, Recorded, Reply};
use serde_json::{Value, json};
use tokio::sync::Notify;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// The revision without a handshake, whose streams cannot be resumed.
const STATELESS: &str = "2026-07-28";

const STATUSES: [&str; 14] = [
    "200 OK",
    "202 Accepted",
    "400 Bad Request",
    "401 Unauthorized",
    "403 Forbidden",
    "404 Not Found",
    "405 Method Not Allowed",
    "409 Conflict",
    "410 Gone",
    "429 Too Many Requests",
    "500 Internal Server Error",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "504 Gateway Timeout",
];

/// How the server answers the GET that resumes the stream.
#[derive(Debug, Clone)]
enum Resumed {
    /// The server responds with a status, and a JSON-RPC error in the body.
    Status(&'static str, Option<Value>),
    /// The server redirects to this URL.
    Redirect(&'static str),
    /// The server closes the connection without a response.
    Cut,
    /// The system refuses the connection, because the server has ended.
    Unreachable,
    /// The server opens streams without a response, until the client gives up.
    Empty,
    /// The client sends no GET, because the stream has no event ID and cannot be resumed.
    Never,
}

#[derive(Debug, Clone)]
struct Case {
    revision: &'static str,
    /// Whether the client detects the server's transport and revision.
    detects: bool,
    has_session: bool,
    /// Whether the server uses another revision after the call.
    changes: bool,
    resumed: Resumed,
}

fn errors(revision: &str) -> Vec<Option<Value>> {
    let version = |supported: &[&str]| {
        let data = json!({"supported": supported, "requested": revision});
        json!({"code": -32022, "message": "Unsupported protocol version", "data": data})
    };
    let error = |code: i64, message: &str| json!({"code": code, "message": message});
    vec![
        None,
        Some(version(&[revision])),
        Some(version(&["2026-07-28"])),
        Some(version(&[])),
        Some(error(-32020, "Header mismatch")),
        Some(error(-32001, "Session not found")),
        Some(error(-32000, "Bad Request: No valid session ID provided")),
        Some(error(-32600, "Session not found")),
        Some(error(-32601, "Method not found")),
        Some(error(-32602, "Unknown tool: work")),
    ]
}

fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25", STATELESS] {
        let mut all = vec![Resumed::Never];
        if revision != STATELESS {
            all.extend([Resumed::Cut, Resumed::Unreachable, Resumed::Empty]);
            all.extend(["/sse?there", "http://127.0.0.1:1/"].map(Resumed::Redirect));
            for status in STATUSES {
                let bodies = errors(revision).into_iter();
                all.extend(bodies.map(|body| Resumed::Status(status, body)));
            }
        }
        for resumed in all {
            for flags in 0..8 {
                cases.push(Case {
                    revision,
                    // Without detection, the client would not use the revision without handshake.
                    detects: flags & 1 == 0 || revision == STATELESS,
                    has_session: flags & 2 == 0,
                    changes: flags & 4 == 0,
                    resumed: resumed.clone(),
                });
            }
        }
    }
    cases
}

fn respond(request: &Recorded, case: &Case, was_called: bool) -> Vec<Fault> {
    if request.json()["id"].is_null() {
        return vec![Fault::text("202 Accepted", "")];
    }
    let revision = if !(case.changes && was_called) {
        case.revision
    } else if case.revision == "2025-03-26" {
        "2025-06-18"
    } else {
        "2025-03-26"
    };
    let server = json!({"name": "losing", "version": "1"});
    let reply = match request.rpc_method().as_str() {
        "server/discover" if revision == STATELESS => Reply::result(&json!({
            "supportedVersions": [STATELESS], "capabilities": {"tools": {}}, "serverInfo": server,
            "resultType": "complete",
        })),
        "initialize" if revision != STATELESS => Reply::result(&json!({
            "protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": server,
        })),
        _ => Reply::error(-32601, "Method not found"),
    };
    let mut headers = vec![("Content-Type", JSON)];
    if case.has_session && request.rpc_method() == "initialize" {
        headers.push(("Mcp-Session-Id", "s1"));
    }
    let body = reply.response(&request.rpc_id());
    vec![Fault::response_with("200 OK", &headers, body)]
}

fn resume(resumed: &Resumed) -> Vec<Fault> {
    match resumed {
        Resumed::Status(status, None) => vec![Fault::text(status, "no")],
        Resumed::Status(status, Some(error)) => {
            let body = Reply::raw_error(error).response("null");
            vec![Fault::response(status, JSON, body)]
        }
        Resumed::Redirect(url) => vec![Fault::redirect("307 Temporary Redirect", url)],
        Resumed::Cut | Resumed::Unreachable | Resumed::Never => vec![Fault::Close],
        Resumed::Empty => vec![Fault::head(EVENT_STREAM), Fault::Close],
    }
}

/// Creates a client, which may detect the server's transport and revision.
fn client(server: &FaultServer, detects: bool) -> McpClient {
    let mut config = ServerConfig::new("losing", &server.url).unwrap();
    if !detects {
        config.transport = TransportKind::StreamableHttp;
    }
    config.timeout = Duration::from_secs(20);
    McpClient::new(config)
}

/// Plays one case. Returns a description of what went wrong, if anything.
async fn play(case: Case) -> Option<String> {
    let (accepted, was_called) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (script, notify) = (case.clone(), Arc::clone(&accepted));
    let server = FaultServer::start(move |request| {
        if request.method == "GET" {
            return resume(&script.resumed);
        }
        if request.rpc_method() == "tools/call" {
            was_called.store(true, Ordering::SeqCst);
            notify.notify_one();
            let prime = match script.resumed {
                Resumed::Never => ": accepted\n\n",
                // The reconnection time is long enough for the server to end.
                Resumed::Unreachable => "id: 1\nretry: 100\ndata:\n\n",
                _ => "id: 1\nretry: 1\ndata:\n\n",
            };
            return vec![
                Fault::head(EVENT_STREAM),
                Fault::Send(prime.into()),
                Fault::Wait(Duration::from_millis(5)),
                Fault::Close,
            ];
        }
        respond(request, &script, was_called.load(Ordering::SeqCst))
    })
    .await;
    let client = client(&server, case.detects);
    let requests = server.requests.clone();
    let arguments = json!({});
    let call = client.call_tool("work", &arguments);
    let called = if matches!(case.resumed, Resumed::Unreachable) {
        let stop = async {
            accepted.notified().await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            drop(server);
        };
        tokio::join!(call, stop).0
    } else {
        call.await
    };
    let Err(error) = called else {
        return Some(format!("{case:?}: the call succeeded"));
    };
    let (text, class) = (error.to_string(), error.class());
    let sent = requests.calls("tools/call").len();
    let is_right = sent == 1
        && error.may_have_run()
        && text.ends_with("; the tool may have run")
        && error.http_status().is_none()
        && error.retry_after().is_none()
        && error.rpc_error().is_none()
        && matches!(class, ErrorClass::Unavailable | ErrorClass::Internal);
    (!is_right).then(|| format!("{case:?}: sent {sent} times: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_accepted_is_never_sent_again() {
    cases::play_all(all_cases(), 48, play).await;
}

/// Starts a server that responds to `tools/call` with `call`, and to `tasks/get` with the steps in
/// `task`.
async fn start(revision: &'static str, call: Reply, task: Vec<Fault>) -> FaultServer {
    let case = Case {
        revision,
        detects: true,
        has_session: false,
        changes: false,
        resumed: Resumed::Never,
    };
    FaultServer::start(move |request| match request.rpc_method().as_str() {
        _ if request.method == "GET" => vec![Fault::text("405 No", "")],
        "tools/call" => vec![Fault::reply(request, &call)],
        "tasks/get" => task.clone(),
        _ => respond(request, &case, false),
    })
    .await
}

#[tokio::test]
async fn a_started_task_may_have_run_whatever_happens_to_the_requests_for_its_state() {
    let created = Reply::result(&json!({
        "resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 1,
    }));
    let unknown = Reply::error(-32602, "Unknown task").response("null");
    for task in [
        Fault::text("401 Unauthorized", ""),
        Fault::text("404 Not Found", ""),
        Fault::response("400 Bad Request", JSON, unknown),
    ] {
        let server = start(STATELESS, created.clone(), vec![task]).await;
        let client = client(&server, true);
        let error = client.call_tool("work", &json!({})).await.unwrap_err();
        assert!(error.may_have_run(), "{error}");
        assert!(error.to_string().ends_with("may have run"), "{error}");
        assert_eq!(server.requests.calls("tools/call").len(), 1);
        assert!(!server.requests.calls("tasks/get").is_empty());
    }
}

#[tokio::test]
async fn an_error_of_a_tool_is_no_rejection_of_the_revision() {
    let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"]}});
    let server = start("2025-11-25", Reply::raw_error(&error), Vec::new()).await;
    let client = client(&server, false);
    client.connect().await.unwrap();
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    assert_eq!(error.rpc_error().map(|error| error.code), Some(-32022));
    assert!(!error.may_have_run());
    assert_eq!(server.requests.calls("tools/call").len(), 1);
}

#[tokio::test]
async fn a_call_of_a_server_without_a_session_has_not_run() {
    for response in [
        Fault::response("200 OK", "text/html", "<html>"),
        Fault::json(""),
        Fault::json("{\"id\":"),
    ] {
        let server = FaultServer::start(move |_| vec![response.clone()]).await;
        let client = client(&server, false);
        let error = client.call_tool("work", &json!({})).await.unwrap_err();
        let calls = server.requests.calls("tools/call").len();
        assert_eq!(error.may_have_run(), calls > 0, "{error}");
    }
}
