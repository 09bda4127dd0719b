//! A server forgets its sessions, and rejects requests in every form that servers are known to use,
//! over every transport: the call runs once, in a new session. A tool uses the same words for its
//! own session: the call runs once as well.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pillion_mcp_client::{McpClient, ServerConfig, StdioCommand, TransportKind};
use pillion_testkit::{
    FakeWebSocket, Fault, FaultServer, Recorded, Reply, Subprotocol, fake_stdio,
};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

const STATUSES: [u16; 12] = [200, 400, 401, 403, 404, 405, 409, 410, 422, 440, 500, 503];

/// Texts that say that a session is unknown.
const TEXTS: [&str; 6] = [
    "Session not found",
    "Bad Request: Server not initialized",
    "Bad Request: No valid session ID provided",
    "Invalid or missing session ID",
    "Session expired",
    "Unauthorized: Session not found",
];

const CODES: [i64; 6] = [-32000, -32001, -32002, -32600, -32602, -32603];

/// The form of the body of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A JSON-RPC error with the ID of the request.
    Response,
    /// An event stream with a JSON-RPC error with the ID of the request.
    ResponseEvent,
    /// A JSON-RPC error with the ID null.
    Error,
    /// A JSON-RPC error with an ID that the server made up.
    OtherId,
    /// A JSON-RPC error with the ID null as an event stream.
    Event,
    /// An event stream whose content type is JSON, with a JSON-RPC error with the ID null.
    MislabeledEvent,
    /// `{"error": TEXT}`.
    Json,
    Text,
    Html,
    Empty,
}

const FORMS: [Form; 10] = [
    Form::Response,
    Form::ResponseEvent,
    Form::Error,
    Form::OtherId,
    Form::Event,
    Form::MislabeledEvent,
    Form::Json,
    Form::Text,
    Form::Html,
    Form::Empty,
];

impl Form {
    fn is_json_rpc(self) -> bool {
        !matches!(self, Self::Json | Self::Text | Self::Html | Self::Empty)
    }
}

/// Streamable HTTP with `Mcp-Session-Id`, configured or detected, and HTTP+SSE, where the endpoint
/// names the session.
const TRANSPORTS: [TransportKind; 3] = [
    TransportKind::StreamableHttp,
    TransportKind::Auto,
    TransportKind::LegacySse,
];

#[derive(Debug, Clone, Copy)]
struct Case {
    transport: TransportKind,
    status: u16,
    form: Form,
    code: i64,
    text: &'static str,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for transport in TRANSPORTS {
            for status in STATUSES {
                for form in FORMS {
                    let mut case = |code, text| {
                        cases.push(Self {
                            transport,
                            status,
                            form,
                            code,
                            text,
                        });
                    };
                    TEXTS.into_iter().for_each(|text| case(-32001, text));
                    if form.is_json_rpc() {
                        CODES.into_iter().for_each(|code| case(code, TEXTS[0]));
                    }
                }
            }
        }
        // A success status without a response means that the server accepted the request.
        cases.retain(|case| {
            case.status != 200 || case.form.is_json_rpc() && case.form != Form::OtherId
        });
        cases
    }

    fn has_id_of_request(self) -> bool {
        matches!(self.form, Form::Response | Form::ResponseEvent)
    }

    /// Returns whether the response is a rejection that the specification, or the official SDK,
    /// defines for an unknown session, so that no tool uses it.
    fn is_official(self) -> bool {
        let has_code = matches!(self.code, -32600 | -32099..=-32000);
        !self.has_id_of_request()
            && (self.status == 404 || self.status == 400 && self.form.is_json_rpc() && has_code)
    }

    fn response(self, request: &Recorded) -> Vec<Fault> {
        let id = match self.form {
            Form::Response | Form::ResponseEvent => request.json()["id"].clone(),
            Form::OtherId => "server-error".into(),
            _ => Value::Null,
        };
        let error = json!({"code": self.code, "message": self.text});
        let message = json!({"jsonrpc": "2.0", "id": id, "error": error});
        let event = || format!("event: message\ndata: {message}\n\n");
        let (kind, body) = match self.form {
            Form::Response | Form::Error | Form::OtherId => (JSON, message.to_string()),
            Form::ResponseEvent | Form::Event => (EVENT_STREAM, event()),
            Form::MislabeledEvent => (JSON, event()),
            Form::Json => (JSON, json!({"error": self.text}).to_string()),
            Form::Text => ("text/plain", self.text.to_owned()),
            Form::Html => ("text/html", format!("<p>{}</p>", self.text)),
            Form::Empty => ("text/plain", String::new()),
        };
        vec![Fault::response(&format!("{} X", self.status), kind, body)]
    }
}

/// How the server treats tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    /// The server forgets its sessions after the first call.
    Forgets,
    /// The tool runs, and its own response is that of the case.
    ToolFails,
    /// The tool runs and reports progress, then the server forgets its sessions.
    ForgetsDuringCall,
}

/// A server with sessions.
struct Server {
    case: Case,
    scenario: Scenario,
    /// The number of the current session.
    session: AtomicUsize,
    has_forgotten: AtomicBool,
    runs: AtomicUsize,
}

impl Server {
    fn respond(&self, request: &Recorded) -> Vec<Fault> {
        let (id, method) = (request.rpc_id(), request.rpc_method());
        let is_legacy = self.case.transport == TransportKind::LegacySse;
        let success = |reply: Reply, session: Option<String>| {
            let mut headers = vec![("Content-Type", JSON)];
            if let Some(session) = &session {
                headers.push(("Mcp-Session-Id", session));
            }
            let body = reply.response(&id);
            vec![Fault::response_with("200 OK", &headers, body)]
        };
        if request.method == "GET" && is_legacy {
            self.has_forgotten.store(false, Ordering::SeqCst);
            let session = 1 + self.session.fetch_add(1, Ordering::SeqCst);
            let event = format!("event: endpoint\ndata: /messages?session={session}\n\n");
            let event = Fault::Send(event.into_bytes());
            return vec![Fault::head(EVENT_STREAM), event, Fault::Hang];
        }
        if request.method != "POST" || is_legacy && request.path == "/sse" {
            return vec![Fault::text("405 Method Not Allowed", "")];
        }
        if method == "initialize" && !is_legacy {
            self.has_forgotten.store(false, Ordering::SeqCst);
            let session = 1 + self.session.fetch_add(1, Ordering::SeqCst);
            return success(Reply::result(&json!({})), Some(session.to_string()));
        }
        if method == "server/discover" {
            return success(Reply::error(-32601, "Method not found"), None);
        }
        let current = self.session.load(Ordering::SeqCst).to_string();
        let named = if is_legacy {
            request.path.rsplit('=').next().unwrap_or_default()
        } else {
            request.header("mcp-session-id")
        };
        if self.has_forgotten.load(Ordering::SeqCst) || named != current {
            return self.case.response(request);
        }
        if method.is_empty() || method.starts_with("notifications/") {
            return vec![Fault::text("202 Accepted", "")];
        }
        if method != "tools/call" {
            return success(Reply::result(&json!({})), None);
        }
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        match self.scenario {
            Scenario::ToolFails => self.case.response(request),
            Scenario::ForgetsDuringCall if run == 1 => {
                self.has_forgotten.store(true, Ordering::SeqCst);
                let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
                let error = Reply::error(-32001, "Session not found").response(&id);
                let events = format!("data: {progress}\n\ndata: {error}\n\n");
                vec![Fault::response("200 OK", EVENT_STREAM, events)]
            }
            _ => success(Reply::result(&json!({"content": []})), None),
        }
    }
}

/// Starts a server and a client with an open session. If the server forgets its sessions in this
/// scenario, a tool was called in the session.
async fn start(case: Case, scenario: Scenario) -> (FaultServer, Arc<Server>, McpClient) {
    let server = Arc::new(Server {
        case,
        scenario,
        session: AtomicUsize::new(0),
        has_forgotten: AtomicBool::new(false),
        runs: AtomicUsize::new(0),
    });
    let script = Arc::clone(&server);
    let listening = FaultServer::start(move |request| script.respond(request)).await;
    let mut config = ServerConfig::new("forgetful", &listening.url).unwrap();
    config.timeout = Duration::from_secs(20);
    config.transport = case.transport;
    let client = McpClient::new(config);
    if scenario == Scenario::ToolFails {
        client.connect().await.unwrap();
    } else {
        client.call_tool("work", &json!({})).await.unwrap();
    }
    (listening, server, client)
}

async fn play_loss(case: Case) -> Option<String> {
    let (listening, server, client) = start(case, Scenario::Forgets).await;
    server.has_forgotten.store(true, Ordering::SeqCst);
    let called = client.call_tool("work", &json!({})).await;
    let runs = server.runs.load(Ordering::SeqCst);
    let sent = listening.requests.calls("tools/call").len();
    let is_right = called.is_ok() && (runs, sent) == (2, 3);
    (!is_right).then(|| format!("{case:?}: {runs} runs, {sent} sent: {called:?}"))
}

async fn play_failure(case: Case) -> Option<String> {
    let (listening, server, client) = start(case, Scenario::ToolFails).await;
    let called = client.call_tool("work", &json!({})).await;
    let runs = server.runs.load(Ordering::SeqCst);
    let sessions = server.session.load(Ordering::SeqCst);
    let error = called.as_ref().err().and_then(|error| error.rpc_error());
    let keeps_error = !case.has_id_of_request()
        || matches!(case.status, 401 | 403)
        || error.is_some_and(|error| error.message == case.text && error.code == case.code);
    let is_right = called.is_err() && keeps_error && (runs, sessions) == (1, 1);
    let sent = listening.requests.calls("tools/call").len();
    (!is_right)
        .then(|| format!("{case:?}: {runs} runs, {sent} sent, {sessions} sessions: {called:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_a_lost_session_runs_once_in_a_new_one_whatever_the_server_says() {
    // An empty body does not mean an unknown session, unless the status does.
    let mut cases = Case::all();
    cases.retain(|case| case.form != Form::Empty || matches!(case.status, 404 | 410));
    cases::play_all(cases, 32, play_loss).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_reports_its_own_session_runs_once_whatever_it_says() {
    let mut cases = Case::all();
    cases.retain(|case| !case.is_official());
    cases::play_all(cases, 32, play_failure).await;
}

#[tokio::test]
async fn a_call_that_may_have_run_before_its_session_ended_is_sent_once() {
    let case = |form, text| Case {
        transport: TransportKind::StreamableHttp,
        status: 200,
        form,
        code: -32001,
        text,
    };
    // A tool that reports progress has run.
    let not_found = case(Form::Response, "Session not found");
    let (listening, server, client) = start(not_found, Scenario::ForgetsDuringCall).await;
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    assert_eq!(error.rpc_error().unwrap().code, -32001);
    assert_eq!(server.runs.load(Ordering::SeqCst), 2);
    assert_eq!(listening.requests.calls("tools/call").len(), 2);
    // The next call opens another session.
    client.call_tool("work", &json!({})).await.unwrap();
    assert_eq!(server.session.load(Ordering::SeqCst), 2);

    // If a session has ended and the server has read the call, the session may have ended during
    // the call.
    let terminated = case(Form::Response, "Session terminated");
    let (listening, server, client) = start(terminated, Scenario::Forgets).await;
    server.has_forgotten.store(true, Ordering::SeqCst);
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    assert_eq!(error.rpc_error().unwrap().message, "Session terminated");
    assert_eq!(listening.requests.calls("tools/call").len(), 2);
    client.call_tool("work", &json!({})).await.unwrap();
    // A rejection of the call means the same for a session that ended before the call.
    for status in [400, 500] {
        let mut rejected = case(Form::Error, "Session terminated");
        rejected.status = status;
        let (listening, server, client) = start(rejected, Scenario::Forgets).await;
        server.has_forgotten.store(true, Ordering::SeqCst);
        client.call_tool("work", &json!({})).await.unwrap();
        assert_eq!(server.runs.load(Ordering::SeqCst), 2);
        assert_eq!(listening.requests.calls("tools/call").len(), 3);
    }
}

#[tokio::test]
async fn a_program_or_web_socket_that_loses_its_session_is_opened_again() {
    let (program, args) = fake_stdio(&[]);
    let mut command = StdioCommand::new(program);
    command.args = args;
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    for config in [
        ServerConfig::for_command("fake", command),
        ServerConfig::new("fake", &server.url).unwrap(),
    ] {
        let client = McpClient::new(config);
        // After this call, the server rejects everything except a handshake on a new connection.
        client.call_tool("forget", &json!({})).await.unwrap();
        let rolled = client.call_tool("roll", &json!({})).await.unwrap();
        assert!(rolled.get().contains("total"), "{rolled}");
        // A call of a tool that uses the same words for its own session runs once.
        let error = client.call_tool("lost", &json!({})).await.unwrap_err();
        assert_eq!(error.rpc_error().unwrap().code, -32001);
        let count = client.call_tool("count-lost", &json!({})).await.unwrap();
        assert_eq!(count.get(), "1");
    }
    assert_eq!(server.requests.all().len(), 2);
}
