//! Servers that break the rules of HTTP, of content types, of lists or of stdio. Where the meaning
//! is clear, the client reads the response; otherwise, the error says what is wrong.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::time::Duration;

use pillion_mcp_client::{
    ErrorClass, McpClient, McpErrorKind, ServerConfig, StdioCommand, TransportKind,
};
use pillion_testkit::{
    Dialect, Endpoint, FakeMcp, Fault, FaultServer, Recorded, Reply, fake_stdio,
};
use serde_json::{Value, json};

const RESULT: &str = r#"{"content":[{"type":"text","text":"fine"}]}"#;

const GZIP_START: &[u8] = b"\x1f\x8b\x08";

const TYPES: [Option<&str>; 7] = [
    Some("application/json"),
    Some("text/event-stream"),
    Some("text/plain; charset=utf-8"),
    Some("application/octet-stream"),
    Some("text/html"),
    Some(""),
    None,
];

/// Returns the body of a JSON-RPC response.
fn make_body((name, before, after): Form, json: &str) -> String {
    if name != "indented JSON" {
        return format!("{before}{json}{after}");
    }
    let value: Value = serde_json::from_str(json).unwrap();
    format!("{before}{value:#}{after}")
}

type Form = (&'static str, &'static str, &'static str);

/// The forms of a response in a body.
const FORMS: [Form; 9] = [
    ("JSON", "", ""),
    ("indented JSON", "\r\n", "\n"),
    ("JSON after a byte order mark", "\u{feff}", ""),
    ("a batch", "[", "]"),
    ("an event", "event: message\ndata: ", "\n\n"),
    ("data without space and with CR", "data:", "\r\r"),
    ("a comment first", ": ping\n\nid: 1\ndata: ", "\n\n"),
    ("an event after a byte order mark", "\u{feff}data: ", "\n\n"),
    ("blank lines and retry", "\n\nretry: 5\ndata: ", "\n\n"),
];

/// Returns the response of a simple server to a request; `None` for a notification.
fn response(request: &Recorded) -> Option<String> {
    let id = request.json().get("id")?.to_string();
    let reply = match request.rpc_method().as_str() {
        "initialize" => {
            Reply::result(&json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}))
        }
        "tools/list" => Reply::result(&json!({"tools": [{"name": "work"}]})),
        "tools/call" => Reply::raw_result(RESULT),
        _ => Reply::error(-32601, "Method not found"),
    };
    Some(reply.response(&id))
}

fn with_type(content_type: Option<&str>, body: impl AsRef<[u8]>) -> Fault {
    let header = content_type.map(|value| ("Content-Type", value));
    Fault::response_with("200 OK", header.as_slice(), body)
}

fn client(url: &str, transport: TransportKind) -> McpClient {
    let mut config = ServerConfig::new("odd", url).unwrap();
    config.transport = transport;
    config.timeout = Duration::from_secs(10);
    McpClient::new(config)
}

/// Calls a tool and lists the tools, twice.
async fn is_understood(client: &McpClient, case: &str) {
    for round in 0..2 {
        let outcome = client.call_tool("work", &json!({})).await;
        let called = outcome.unwrap_or_else(|error| panic!("{case}, round {round}: {error}"));
        let called: Value = serde_json::from_str(called.get()).unwrap();
        assert_eq!(called["content"][0]["text"], "fine", "{case}");
        assert_eq!(client.list_tools().await.unwrap().len(), 1, "{case}");
    }
}

#[tokio::test]
async fn a_body_is_recognized_by_its_first_bytes_whatever_its_content_type() {
    for content_type in TYPES {
        for form in FORMS {
            let server = FaultServer::start(move |request| {
                if request.method != "POST" {
                    return vec![Fault::text("405 Method Not Allowed", "")];
                }
                match response(request) {
                    Some(response) => vec![with_type(content_type, make_body(form, &response))],
                    None => vec![with_type(content_type, "Accepted")],
                }
            })
            .await;
            let case = format!("{} as {content_type:?}", form.0);
            is_understood(&client(&server.url, TransportKind::Auto), &case).await;
        }
    }
}

#[tokio::test]
async fn a_stream_with_a_wrong_content_type_is_read_while_it_is_open() {
    for content_type in TYPES {
        let server = FaultServer::start(move |request| {
            let Some(response) = response(request) else {
                return vec![Fault::text("202 Accepted", "")];
            };
            let progress = r#"data: {"jsonrpc":"2.0","method":"notifications/message"}"#;
            let head = Fault::head(content_type.unwrap_or("text/plain"));
            let (first, second) = response.split_at(response.len() / 2);
            vec![
                head,
                Fault::Send(b"da".to_vec()),
                Fault::Wait(Duration::from_millis(5)),
                Fault::Send(format!("ta: {{}}\n\n{progress}\n\ndata: {first}").into_bytes()),
                Fault::Wait(Duration::from_millis(5)),
                Fault::Send(format!("{second}\n\n").into_bytes()),
                Fault::Hang,
            ]
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        is_understood(&client, &format!("{content_type:?}")).await;
    }
}

#[tokio::test]
async fn a_get_stream_with_a_wrong_content_type_is_read() {
    for content_type in TYPES {
        let server = FaultServer::start(move |request| {
            if request.method == "GET" {
                let event = "event: endpoint\ndata: /messages?session=1\n\n";
                let event = Fault::Send(event.as_bytes().to_vec());
                let head = Fault::head(content_type.unwrap_or("text/plain"));
                return vec![head, event, Fault::Hang];
            }
            match response(request) {
                _ if request.path == "/sse" => vec![Fault::text("405 Method Not Allowed", "")],
                Some(response) => vec![with_type(content_type, response)],
                None => vec![Fault::text("202 Accepted", "")],
            }
        })
        .await;
        for transport in [TransportKind::LegacySse, TransportKind::Auto] {
            let client = client(&server.url, transport);
            is_understood(&client, &format!("{content_type:?}, {transport:?}")).await;
        }
    }
}

#[tokio::test]
async fn a_text_is_an_error_that_names_its_content_type() {
    for (content_type, shown) in [("text/html; x=y", "'text/html'"), ("", "''")] {
        for body in ["<html>", "id", "database: down", "no"] {
            let server =
                FaultServer::start(move |_| vec![with_type(Some(content_type), body)]).await;
            let client = client(&server.url, TransportKind::PostSse);
            let error = client.call_tool("work", &json!({})).await.unwrap_err();
            assert!(error.to_string().contains(shown), "{body}: {error}");
        }
    }
}

#[tokio::test]
async fn a_compressed_response_is_an_error_that_says_so() {
    for (encoding, content_type) in [
        ("gzip", "application/json"),
        ("br", "text/event-stream"),
        ("zstd, gzip", "text/plain"),
    ] {
        let server = FaultServer::start(move |request| {
            let encoding = ("Content-Encoding", encoding);
            if request.method != "POST" || request.json().get("id").is_none() {
                // A response without a body is not compressed, whatever its header says.
                return vec![Fault::response_with("202 Accepted", &[encoding], "")];
            }
            let headers = [("Content-Type", content_type), encoding];
            match request.rpc_method().as_str() {
                "tools/call" => vec![Fault::response_with("200 OK", &headers, GZIP_START)],
                _ => vec![Fault::json(response(request).unwrap())],
            }
        })
        .await;
        let client = client(&server.url, TransportKind::Auto);
        let error = client.call_tool("work", &json!({})).await.unwrap_err();
        let is_encoded = matches!(error.kind(), McpErrorKind::ContentEncoding { .. });
        assert!(is_encoded, "{error}");
        let text = format!("the response has the content encoding '{encoding}'");
        assert!(error.to_string().contains(&text), "{error}");
        assert_eq!(error.class(), ErrorClass::Internal);
        assert!(error.may_have_run());
        assert_eq!(server.requests.calls("tools/call").len(), 1);
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_compressed_rejection_may_be_the_answer_to_the_call() {
    let server = FaultServer::start(move |request| {
        let headers = [
            ("Content-Type", "application/json"),
            ("Content-Encoding", "gzip"),
            ("Mcp-Session-Id", "s"),
        ];
        match request.rpc_method().as_str() {
            "tools/call" => vec![Fault::response_with("404 Not Found", &headers, GZIP_START)],
            "initialize" => {
                let (headers, body) = ([headers[0], headers[2]], response(request).unwrap());
                vec![Fault::response_with("200 OK", &headers, body)]
            }
            _ => vec![Fault::text("202 Accepted", "")],
        }
    })
    .await;
    let client = client(&server.url, TransportKind::StreamableHttp);
    client.call_tool("work", &json!({})).await.unwrap_err();
    assert_eq!(server.requests.calls("tools/call").len(), 1);
}

#[tokio::test]
async fn folded_headers_are_read() {
    let folded = |content_type: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n\tthree\r\nContent-Type: {content_type};\r\n \
             charset=utf-8\r\n"
        )
    };
    let server = FaultServer::start(move |request| {
        if request.method == "GET" {
            let event = "event: endpoint\ndata: /messages?session=1\n\n";
            let stream = format!("{}\r\n{event}", folded("text/event-stream"));
            return vec![Fault::Send(stream.into_bytes()), Fault::Hang];
        }
        let Some(response) = response(request) else {
            return vec![Fault::text("202 Accepted", "")];
        };
        let (head, length) = (folded("application/json"), response.len());
        let reply = format!("{head}Content-Length: {length}\r\n\r\n{response}");
        vec![Fault::Send(reply.into_bytes())]
    })
    .await;
    // A POST to this machine uses the direct client, a GET request the full client.
    for transport in [TransportKind::StreamableHttp, TransportKind::LegacySse] {
        is_understood(&client(&server.url, transport), &format!("{transport:?}")).await;
    }
}

/// Returns a server that answers `method` with the page for the request's cursor.
fn listing(dialect: Dialect, method: &'static str, page: fn(Option<&Value>) -> Value) -> FakeMcp {
    FakeMcp::builder(dialect)
        .on(method, move |params| {
            Reply::result(&page(params.get("cursor")))
        })
        .start()
}

/// Returns a last page with all tools and this cursor.
fn last_page(cursor: &Value) -> Value {
    json!({"tools": [{"name": "a"}, {"name": "b"}], "nextCursor": cursor})
}

#[tokio::test]
async fn lists_of_untyped_servers_are_read_over_every_transport() {
    type Page = fn(Option<&Value>) -> Value;
    let pages: [(&str, Page, usize); 9] = [
        (
            "an object with gaps",
            |_| json!({"tools": {"0": {"name": "a"}, "2": {"name": "b"}}}),
            1,
        ),
        (
            "an object with names",
            |_| json!({"tools": {"a": {"name": "a"}, "b": {"title": "B"}}}),
            1,
        ),
        (
            "a number",
            |cursor| match cursor {
                None => json!({"tools": [{"name": "a"}], "nextCursor": 2}),
                Some(cursor) => json!({"tools": [{"name": if *cursor == 2 { "b" } else { "?" }}]}),
            },
            2,
        ),
        ("false", |_| last_page(&json!(false)), 1),
        ("0", |_| last_page(&json!(0)), 1),
        ("null", |_| last_page(&Value::Null), 1),
        ("an empty text", |_| last_page(&json!("")), 1),
        ("an ignored cursor", |_| last_page(&json!("n")), 2),
        (
            "a result in a result",
            |_| json!({"result": {"tools": [{"name": "a"}, {"name": "b"}]}}),
            1,
        ),
    ];
    for (dialect, transport) in [
        (Dialect::PostSse, TransportKind::PostSse),
        (Dialect::PlainHttp, TransportKind::Http),
        (
            Dialect::LegacySse(Endpoint::Relative),
            TransportKind::LegacySse,
        ),
        (Dialect::StreamableJson, TransportKind::StreamableHttp),
        (Dialect::Stateless, TransportKind::Auto),
    ] {
        for (case, page, requests) in pages {
            let server = listing(dialect.clone(), "tools/list", page);
            let listed = client(&server.url, transport).list_tools().await;
            let tools = listed.unwrap_or_else(|error| panic!("{case}, {transport:?}: {error}"));
            let names: Vec<Value> = tools
                .iter()
                .map(|tool| serde_json::from_str::<Value>(tool.get()).unwrap()["name"].clone())
                .collect();
            assert_eq!(names, ["a", "b"], "{case}, {transport:?}");
            let sent = server.requests.calls("tools/list").len();
            assert_eq!(sent, requests, "{case}, {transport:?}");
        }
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_an_error_that_names_the_member() {
    let page = |_: Option<&Value>| json!({"prompts": 7});
    let server = listing(Dialect::PlainHttp, "prompts/list", page);
    let client = client(&server.url, TransportKind::Http);
    let text = client.list_prompts().await.unwrap_err().to_string();
    assert!(text.contains("a list or an object as `prompts`"), "{text}");
}

#[tokio::test]
async fn noise_of_a_program_disturbs_no_call() {
    for flag in [
        "before-message:Loading 100%\r",
        "before-message:\u{1b}[2K\u{1b}[1G",
        "before-message:\u{feff}",
        "before-message:[INFO] {ready} ",
        "before-line:\u{feff}",
        "before-line:{\"level\":30,\"id\":ID,\"msg\":\"request\"}",
        "before-line:{\"level\":50,\"id\":ID,\"error\":\"ECONNRESET\",\"msg\":\"x\"}",
        "before-line:{\"time\":1,\"id\":ID,\"result\":\"done\"}",
        "before-line:received {\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":\"tools/call\",\"params\":{}}",
        "before-line:[1, 2]",
        "before-line:{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"?\"}}",
        "before-line:\r",
    ] {
        let (program, args) = fake_stdio(&[flag]);
        let mut command = StdioCommand::new(program);
        command.args = args;
        let mut config = ServerConfig::for_command("noisy", command);
        config.timeout = Duration::from_secs(10);
        let client = McpClient::new(config);
        for _ in 0..2 {
            let outcome = client.call_tool("roll", &json!({})).await;
            let called = outcome.unwrap_or_else(|error| panic!("{flag:?}: {error}"));
            assert!(called.get().contains("15"), "{flag:?}: {called}");
        }
        assert_eq!(client.list_tools().await.unwrap().len(), 1, "{flag:?}");
    }
}
