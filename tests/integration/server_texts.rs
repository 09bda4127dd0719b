//! Long texts of MCP servers, in every place where a server can send one: what other clients
//! receive, one line of the log and one event stay short.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::hostile_server::{self, HostileReply};
use crate::http;
use crate::mcp_server::detected_entry;
use crate::program::Daemon;

/// Maximum size of what one server adds to a listing, in bytes. A text of 4 KiB has at most six
/// times the size in JSON.
const MAX_BYTES_OF_SERVER: usize = 6 * 4 * 1024 + 1024;

/// Maximum size of a log line. A line has the text up to twice.
const MAX_LINE_BYTES: usize = 128 * 1024;

const MAX_EVENT_BYTES: usize = 8 * 1024;

type TextSource = (&'static str, fn(&Value, &str) -> HostileReply);

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

/// The places of a text in a server's responses. `text` is the beginning of a JSON string.
const TEXT_SOURCES: [TextSource; 20] = [
    ("list-error", |request, text| {
        rpc_if(
            request,
            "tools/list",
            &format!(r#""error":{{"code":-32603,"message":"{text}"}}"#),
        )
    }),
    ("list-data", |request, text| {
        let error = format!(r#""error":{{"code":-32603,"message":"m","data":"{text}"}}"#);
        rpc_if(request, "tools/list", &error)
    }),
    ("list-odd-error", |request, text| {
        rpc_if(request, "tools/list", &format!(r#""error":"{text}""#))
    }),
    ("hello-error", |request, text| {
        rpc_if(
            request,
            "initialize",
            &format!(r#""error":{{"code":-32603,"message":"{text}"}}"#),
        )
    }),
    ("hello-versions", |request, text| {
        let error =
            format!(r#""error":{{"code":-32022,"message":"m","data":{{"supported":["{text}"]}}}}"#);
        HostileReply::rpc(request, &error)
    }),
    ("hello-version", |request, text| {
        let result = format!(r#""result":{{"protocolVersion":"{text}","capabilities":{{}}}}"#);
        rpc_if(request, "initialize", &result)
    }),
    ("hello-name", |request, text| {
        let result = format!(
            r#""result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},
            "instructions":"{text}","serverInfo":{{"name":"{text}","version":"{text}"}}}}"#
        );
        rpc_if(request, "initialize", &result)
    }),
    ("hello-text", |request, text| {
        rpc_if(request, "initialize", &format!(r#""result":"{text}""#))
    }),
    ("list-text", |request, text| {
        rpc_if(request, "tools/list", &format!(r#""result":"{text}""#))
    }),
    ("tools-text", |request, text| {
        rpc_if(
            request,
            "tools/list",
            &format!(r#""result":{{"tools":"{text}"}}"#),
        )
    }),
    ("tools-member", |request, text| {
        rpc_if(
            request,
            "tools/list",
            &format!(r#""result":{{"tools":{{"{text}":1}}}}"#),
        )
    }),
    ("cursor", |request, text| {
        let result = format!(r#""result":{{"tools":[],"nextCursor":["{text}"]}}"#);
        rpc_if(request, "tools/list", &result)
    }),
    ("result-type", |request, text| {
        rpc_if(
            request,
            "tools/list",
            &format!(r#""result":{{"resultType":"{text}"}}"#),
        )
    }),
    ("id", |request, text| {
        let mut request = request.clone();
        let text: Value = serde_json::from_str(&format!("\"{text}\"")).unwrap();
        request["id"] = text;
        HostileReply::rpc(&request, r#""result":{}"#)
    }),
    ("tool-name", |request, text| {
        let tool = format!(r#"{{"name":"{text}","inputSchema":{{"type":"object"}}}}"#);
        let odd = format!(r#"{{"name":7,"title":"{text}"}}"#);
        rpc_if(
            request,
            "tools/list",
            &format!(r#""result":{{"tools":[{tool},{odd},"{text}"]}}"#),
        )
    }),
    ("status-rpc", |request, text| {
        let unescaped: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
        let text: String = unescaped.chars().take(9_000).collect();
        let error = format!(r#""error":{{"code":1,"message":{}}}"#, json!(text));
        let body = HostileReply::rpc(request, &error).body;
        http_reply("500 Oh\r\ncontent-type: application/json", body)
    }),
    ("status-text", |_, text| {
        http_reply("502 Oh\r\ncontent-type: text/html", text.to_owned())
    }),
    ("content-type", |_, text| {
        http_reply(
            &format!("200 OK\r\ncontent-type: text/{}", visible(text)),
            "x".to_owned(),
        )
    }),
    ("challenge", |_, text| {
        let challenge = format!(
            "401 No\r\nwww-authenticate: Bearer error=\"{}\"",
            visible(text)
        );
        http_reply(&challenge, String::new())
    }),
    ("no-json", |_, text| {
        http_reply(
            "200 OK\r\ncontent-type: application/json",
            format!("\"{text}\""),
        )
    }),
];

/// The events that arrive within two seconds, each with its size, and the id of the first.
fn events(socket: &Path, last_id: Option<&str>, work: impl FnOnce()) -> (Vec<String>, String) {
    let mut stream = http::connect(socket);
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
        let servers = TEXT_SOURCES.iter().map(|(label, reply)| {
            let url = hostile_server::start(move |request| {
                let count = COUNT.fetch_add(1, Ordering::SeqCst);
                let text = format!("{count} {}", long.repeat(1_500_000 / long.len()));
                reply(request, &text)
            });
            detected_entry(label, &url, "")
        });
        let toml = format!("[mcp]\nretry_after_ms = 1\n{}", servers.collect::<String>());
        let daemon = Daemon::with_config(&toml, &[]);
        let socket = &daemon.socket;
        let call = || {
            for _ in 0..5 {
                http::post(socket, "/api/v1/tools/execute/roll_dice", "{}");
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
                let response = http::send_within(socket, "GET", path, "", b"", timeout);
                let size = response.body.len();
                let max = TEXT_SOURCES.len() * MAX_BYTES_OF_SERVER + 64 * 1024;
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
        assert!(statuses.count() >= TEXT_SOURCES.len(), "{}", lines.len());
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
        let failures = daemon.log().matches("Failed to list MCP tools").count();
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
    let daemon = Daemon::with_config(&detected_entry("far", &url, ""), &[]);
    let (lines, _) = events(&daemon.socket, None, || {
        assert_eq!(http::get(&daemon.socket, "/api/v1/tools/").status, 200);
    });
    let changes: Vec<Value> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| data.contains("added"))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0]["truncated"], true);
    assert!(!changes[0]["added"].as_array().unwrap().is_empty());
    assert!(lines.iter().all(|line| line.len() < MAX_EVENT_BYTES + 100));
}
