//! A JSON-RPC response with the ID of the request is the answer, whatever the HTTP status, unless the
//! server says that the session is lost and rejects a `ping` as well.

use super::*;

const STATUSES: [&str; 10] = [
    "400 Bad Request",
    "404 Not Found",
    "405 Method Not Allowed",
    "409 Conflict",
    "410 Gone",
    "422 Unprocessable Content",
    "500 Internal Server Error",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "401 Unauthorized",
];

const TEXTS: [&str; 6] = [
    "Session not found",
    "Bad Request: Server not initialized",
    "Bad Request: No valid session ID provided",
    "Payment session 17 was not found in the shop",
    "session expired; unsupported protocol version",
    "The city is unknown",
];

const CODES: [i64; 9] = [
    -1, -32000, -32001, -32002, -32004, -32022, -32600, -32602, -32603,
];

/// The form of a response body that contains a JSON-RPC message.
#[derive(Debug, Clone, Copy)]
enum Form {
    Plain,
    Batch,
    Event,
    OpenEvent,
    Large,
    CutOff,
    TextId,
    NoVersion,
}

const FORMS: [Form; 8] = [
    Form::Plain,
    Form::Batch,
    Form::Event,
    Form::OpenEvent,
    Form::Large,
    Form::CutOff,
    Form::TextId,
    Form::NoVersion,
];

impl Form {
    fn faults(self, status: &str, mut message: Value) -> Vec<Fault> {
        match self {
            Self::Large => message["error"]["data"] = "x".repeat(100_000).into(),
            Self::TextId => message["id"] = message["id"].to_string().trim_matches('"').into(),
            Self::NoVersion => drop(message.as_object_mut().unwrap().remove("jsonrpc")),
            _ => {}
        }
        let event = format!("event: message\ndata: {message}\n\n");
        let (kind, body) = match self {
            Self::Event | Self::OpenEvent => (EVENT_STREAM, event),
            Self::Batch => (JSON, json!([message]).to_string()),
            _ => (JSON, message.to_string()),
        };
        if !matches!(self, Self::OpenEvent | Self::CutOff) {
            return vec![Fault::response(status, kind, body)];
        }
        let length = body.len() + 100;
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
        let bytes = format!("{head}\r\n{body}").into_bytes();
        vec![Fault::Send(bytes), Fault::Close]
    }
}

async fn server(call: impl Fn(&Recorded) -> Vec<Fault> + Send + Sync + 'static) -> FaultServer {
    FaultServer::start(move |request| {
        let session = [("Content-Type", JSON), ("Mcp-Session-Id", "s")];
        let id = request.rpc_id();
        match request.rpc_method().as_str() {
            "initialize" => {
                let response = Reply::result(&json!({})).response(&id);
                vec![Fault::response_with("200 OK", &session, response)]
            }
            "tools/call" => call(request),
            "ping" => vec![Fault::json(Reply::result(&json!({})).response(&id))],
            _ => vec![Fault::response("202 Accepted", JSON, "")],
        }
    })
    .await
}

#[tokio::test]
async fn a_call_that_was_answered_with_its_id_is_sent_once_whatever_the_status() {
    let mut cases = Vec::new();
    for status in STATUSES {
        for code in CODES {
            cases.push((status, code, TEXTS[0], Form::Plain));
        }
        for text in TEXTS {
            cases.push((status, -32000, text, Form::Plain));
        }
        for form in FORMS {
            cases.push((status, -32001, TEXTS[0], form));
        }
    }
    for (status, code, text, form) in cases {
        let server = server(move |request| {
            let id: Value = serde_json::from_str(&request.rpc_id()).unwrap();
            let error = json!({"code": code, "message": text});
            form.faults(status, json!({"jsonrpc": "2.0", "id": id, "error": error}))
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        let error = roll(&client).await.unwrap_err();
        let case = format!("{status}, {code}, {text}, {form:?}: {error}");
        assert_eq!(server.requests.count("tools/call"), 1, "{case}");
        // Error code -32022 means that the server now has another revision, which the client
        // checks.
        let is_about_revision = code == -32022;
        let sessions = server.requests.count("initialize");
        assert!(sessions == 1 || is_about_revision, "{case}");
        let is_whole = matches!(form, Form::Plain | Form::Batch | Form::Event | Form::TextId);
        if is_whole && !status.starts_with("401") {
            assert_eq!(error.rpc_error().map(|rpc| rpc.code), Some(code), "{case}");
        }
    }
}

#[tokio::test]
async fn a_result_with_the_id_of_the_call_is_its_result_whatever_the_status() {
    for status in STATUSES {
        let server = server(move |request| {
            let response = Reply::result(&json!({"content": []})).response(&request.rpc_id());
            vec![Fault::response(status, JSON, response)]
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        roll(&client).await.unwrap();
        assert_eq!(server.requests.count("tools/call"), 1, "{status}");
    }
}

#[tokio::test]
async fn a_rejection_without_the_id_of_the_call_opens_a_new_session() {
    let error = r#""error":{"code":-32001,"message":"Session not found"}"#;
    let lost = |id: &str| format!(r#"{{"jsonrpc":"2.0",{id}{error}}}"#);
    for (status, body) in [
        ("404 Not Found", String::new()),
        ("404 Not Found", "Not Found".to_owned()),
        ("404 Not Found", lost("")),
        ("404 Not Found", lost("\"id\":null,")),
        ("404 Not Found", lost("\"id\":\"server-error\",")),
        ("400 Bad Request", lost("")),
        ("400 Bad Request", lost("\"id\":null,")),
        ("400 Bad Request", lost("\"id\":\"server-error\",")),
    ] {
        let response = body.clone();
        let is_first = AtomicBool::new(true);
        let server = server(move |request| {
            if is_first.swap(false, Ordering::SeqCst) {
                return vec![Fault::response(status, JSON, &response)];
            }
            let reply = Reply::result(&json!({"content": []}));
            vec![Fault::reply(request, &reply)]
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        roll(&client).await.unwrap();
        assert_eq!(server.requests.count("initialize"), 2, "{status} {body}");
    }
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_replaced_although_the_server_answers_each_request() {
    // Such a server reports the lost session with the ID of each request, also of a `ping`.
    let is_known = Arc::new(AtomicBool::new(true));
    let known = Arc::clone(&is_known);
    let server = FaultServer::start(move |request| {
        let id = request.rpc_id();
        let session = [("Content-Type", JSON), ("Mcp-Session-Id", "s")];
        let method = request.rpc_method();
        if method == "initialize" {
            known.store(true, Ordering::SeqCst);
            let response = Reply::result(&json!({})).response(&id);
            return vec![Fault::response_with("200 OK", &session, response)];
        }
        if method.is_empty() || method.starts_with("notifications/") {
            return vec![Fault::response("202 Accepted", JSON, "")];
        }
        if !known.load(Ordering::SeqCst) {
            let response = Reply::error(-32001, "Session not found").response(&id);
            return vec![Fault::response("404 Not Found", JSON, response)];
        }
        let response = Reply::result(&json!({"content": [], "tools": []})).response(&id);
        vec![Fault::json(response)]
    })
    .await;
    let client = client(&server.url, TransportKind::StreamableHttp);
    roll(&client).await.unwrap();
    is_known.store(false, Ordering::SeqCst);
    roll(&client).await.unwrap();
    assert_eq!(server.requests.count("tools/call"), 3);
    assert_eq!(server.requests.count("ping"), 1);
    is_known.store(false, Ordering::SeqCst);
    // Listing is harmless to repeat.
    client.list_tools().await.unwrap();
    assert_eq!(server.requests.count("initialize"), 3);
}
