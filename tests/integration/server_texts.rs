//! Long texts of MCP servers, in every place where a server can send one: what other clients
//! receive, one line of the log and one event stay short.

use std::net::Shutdown;
use std::sync::atomic::AtomicU64;

use crate::hostile_server::{self, HostileReply};
use crate::prelude::*;

/// Maximum size of what one server adds to a listing, in bytes. In JSON, a text of 4 KiB may grow
/// to six times its size.
const MAX_BYTES_OF_SERVER: usize = 6 * 4 * 1024 + 1024;

/// Maximum size of a log line, in bytes. A line may contain a server's text twice.
const MAX_LINE_BYTES: usize = 128 * 1024;

const MAX_EVENT_BYTES: usize = 8 * 1024;

fn rpc_if(request: &Value, method: &str, members: &str) -> HostileReply {
    match request["method"] == method {
        true => HostileReply::rpc(request, members),
        false => HostileReply::well(request),
    }
}

fn http_reply(head: &str, body: String) -> HostileReply {
    let head = format!("HTTP/1.1 {head}");
    HostileReply { head, body }
}

/// Returns a text for a header.
fn visible(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "h")
        .chars()
        .take(60_000)
        .collect()
}

/// Labels of texts in responses, each with the method and the members of the response. `TEXT`
/// stands for the text, which is the beginning of a JSON string.
const RPC_TEXTS: [&str; 13] = [
    r#"list-error tools/list "error":{"code":-32603,"message":"TEXT"}"#,
    r#"list-data tools/list "error":{"code":-32603,"message":"m","data":"TEXT"}"#,
    r#"list-odd-error tools/list "error":"TEXT""#,
    r#"hello-error initialize "error":{"code":-32603,"message":"TEXT"}"#,
    r#"hello-version initialize "result":{"protocolVersion":"TEXT","capabilities":{}}"#,
    r#"hello-name initialize "result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"instructions":"TEXT","serverInfo":{"name":"TEXT","version":"TEXT"}}"#,
    r#"hello-text initialize "result":"TEXT""#,
    r#"list-text tools/list "result":"TEXT""#,
    r#"tools-text tools/list "result":{"tools":"TEXT"}"#,
    r#"tools-member tools/list "result":{"tools":{"TEXT":1}}"#,
    r#"cursor tools/list "result":{"tools":[],"nextCursor":["TEXT"]}"#,
    r#"result-type tools/list "result":{"resultType":"TEXT"}"#,
    r#"tool-name tools/list "result":{"tools":[{"name":"TEXT","inputSchema":{"type":"object"}},{"name":7,"title":"TEXT"},"TEXT"]}"#,
];

/// Labels of texts in responses to every request.
const OTHER_TEXTS: [&str; 7] = [
    "hello-versions",
    "id",
    "status-rpc",
    "status-text",
    "content-type",
    "challenge",
    "no-json",
];

const TEXTS: usize = RPC_TEXTS.len() + OTHER_TEXTS.len();

/// Returns the label, the method and the members of an entry of [`RPC_TEXTS`].
fn words(source: &'static str) -> [&'static str; 3] {
    let mut words = source.splitn(3, ' ');
    std::array::from_fn(|_| words.next().unwrap())
}

fn reply(label: &str, request: &Value, text: &str) -> HostileReply {
    let mut texts = RPC_TEXTS.into_iter().map(words);
    if let Some([_, method, members]) = texts.find(|[name, ..]| *name == label) {
        return rpc_if(request, method, &members.replace("TEXT", text));
    }
    let unescaped: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
    match label {
        "hello-versions" => {
            let data = format!(r#"{{"supported":["{text}"]}}"#);
            let error = format!(r#""error":{{"code":-32022,"message":"m","data":{data}}}"#);
            HostileReply::rpc(request, &error)
        }
        "id" => HostileReply::rpc(&json!({"id": unescaped}), r#""result":{}"#),
        "status-rpc" => {
            let message: String = unescaped.chars().take(9_000).collect();
            let error = format!(r#""error":{{"code":1,"message":{}}}"#, json!(message));
            let body = HostileReply::rpc(request, &error).body;
            http_reply("500 Oh\r\ncontent-type: application/json", body)
        }
        "status-text" => http_reply("502 Oh\r\ncontent-type: text/html", text.to_owned()),
        "content-type" => {
            let head = format!("200 OK\r\ncontent-type: text/{}", visible(text));
            http_reply(&head, "x".to_owned())
        }
        "challenge" => {
            let challenge = format!("Bearer error=\"{}\"", visible(text));
            let head = format!("401 No\r\nwww-authenticate: {challenge}");
            http_reply(&head, String::new())
        }
        "no-json" => {
            let head = "200 OK\r\ncontent-type: application/json";
            http_reply(head, format!("\"{text}\""))
        }
        other => panic!("no text is called {other}"),
    }
}

/// The events that arrive within two seconds, each with its size, and the ID of the first.
fn events(socket: &Path, last_id: Option<&str>, work: impl FnOnce()) -> (Vec<String>, String) {
    let mut stream = socket.connect();
    let last_id = last_id
        .map(|id| format!("last-event-id: {id}\r\n"))
        .unwrap_or_default();
    let request = format!("GET /api/v1/events HTTP/1.0\r\nhost: x\r\n{last_id}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let end = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(stream).lines();
        lines.map_while(Result::ok).collect::<Vec<_>>()
    });
    work();
    std::thread::sleep(Duration::from_secs(2));
    end.shutdown(Shutdown::Both).unwrap();
    let lines = reader.join().unwrap();
    let id = lines
        .iter()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap_or_default()
        .to_owned();
    (lines, id)
}

#[test]
fn a_long_text_of_a_server_stays_short_for_other_clients() {
    // The text differs in each response, as a repeated failure is logged once.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    for long in ["\\u001b[2J\\n", "x", "ü"] {
        let labels = RPC_TEXTS.into_iter().map(|text| words(text)[0]);
        let servers = labels.chain(OTHER_TEXTS).map(|label| {
            let url = hostile_server::start(move |request| {
                let count = COUNT.fetch_add(1, Ordering::SeqCst);
                let text = format!("{count} {}", long.repeat(1_500_000 / long.len()));
                reply(label, request, &text)
            });
            detected_entry(label, &url, "")
        });
        let toml = format!("[mcp]\nretry_after_ms = 1\n{}", servers.collect::<String>());
        let daemon = Daemon::with_config(&toml);
        let socket = &daemon.socket;
        let call = || {
            for _ in 0..5 {
                socket.post("/api/v1/tools/execute/roll_dice", "{}");
            }
        };
        let (_, first) = events(socket, None, call);
        let (lines, _) = events(socket, None, || {
            for path in [
                "/api/v1/tools/",
                "/api/v1/tools/",
                "/api/v1/tools/schemas",
                "/api/v1/status",
                "/api/v1/servers",
                "/readyz",
            ] {
                let timeout = Duration::from_secs(120);
                let response = socket.send_within("GET", path, "", b"", timeout);
                let size = response.body.len();
                let max = TEXTS * MAX_BYTES_OF_SERVER + 64 * 1024;
                assert!(size < max, "{path}: {size} bytes");
                let response = response.json();
                let unavailable = response["unavailable_servers"].as_array();
                for server in unavailable.into_iter().flatten() {
                    let size = server.to_string().len();
                    assert!(
                        size < MAX_BYTES_OF_SERVER,
                        "{path}, {}: {size}",
                        server["label"]
                    );
                }
            }
        });
        let statuses = lines.iter().filter(|line| *line == "event: server.status");
        assert!(statuses.count() >= TEXTS, "{}", lines.len());
        for line in &lines {
            assert!(line.len() < MAX_EVENT_BYTES + 100, "{}", line.len());
        }
        assert!(!lines.iter().any(|line| line == "event: reset"));
        let (replayed, _) = events(socket, Some(&first), || ());
        assert!(
            !replayed.iter().any(|line| line == "event: reset"),
            "{long}"
        );
        for line in daemon.log().lines() {
            assert!(
                line.len() < MAX_LINE_BYTES,
                "{} bytes: {line:.300}",
                line.len()
            );
        }
        let failures = daemon.count_logged("Failed to list MCP tools");
        assert!(failures >= 10, "{failures}");
    }
}

#[test]
fn a_change_of_many_tools_is_one_short_event() {
    let url = hostile_server::start(|request| {
        let tools: Vec<_> = (0..5_000)
            .map(|nth| json!({"name": format!("{nth}{}", "n".repeat(40)), "inputSchema": {}}))
            .collect();
        let result = json!({"tools": tools});
        rpc_if(request, "tools/list", &format!(r#""result":{result}"#))
    });
    let daemon = Daemon::with_config(&detected_entry("far", &url, ""));
    let (lines, _) = events(&daemon.socket, None, || {
        assert_eq!(daemon.get("/api/v1/tools/").status, 200);
    });
    let changes: Vec<Value> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| data.contains("added"))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0]["truncated"], true);
    assert!(!changes[0]["added"].items().is_empty());
    assert!(lines.iter().all(|line| line.len() < MAX_EVENT_BYTES + 100));
}
