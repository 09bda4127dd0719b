//! Request bodies with many small JSON values, which need many times their size once they are parsed.

use super::*;

const MIB: u64 = 1024 * 1024;

/// The smallest values of each kind.
const VALUES: [&str; 6] = ["0", "[]", "[0]", "{}", r#"{"":0}"#, r#"{"":[]}"#];

/// Bodies of almost 1 MiB: arguments, calls of a batch, arguments as a text, and a message.
fn bodies(value: &str) -> [(&'static str, String); 4] {
    let values = vec![value; 950_000 / (value.len() + 1)].join(",");
    // Each quote in a text needs two bytes.
    let half = vec![value; 450_000 / (value.len() + 1)].join(",");
    let text = Value::from(format!(r#"{{"a":[{half}]}}"#));
    let batch = |arguments: &str| {
        format!(r#"{{"calls":[{{"id":"1","name":"echo","arguments":{arguments}}}]}}"#)
    };
    [
        (
            "/api/v1/tools/execute/echo",
            format!(r#"{{"a":[{values}]}}"#),
        ),
        (
            "/api/v1/tools/batch-execute",
            batch(&format!(r#"{{"a":[{values}]}}"#)),
        ),
        ("/api/v1/tools/batch-execute", batch(&text.to_string())),
        (
            "/mcp",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":[{values}]}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
            ),
        ),
    ]
}

/// Sends a request, and leaves its connection open.
fn send(server: &Server, token: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream
}

/// Returns the response if the response arrives soon.
fn response(stream: &mut TcpStream) -> Option<String> {
    let soon = Duration::from_millis(20);
    stream.set_read_timeout(Some(soon)).unwrap();
    let mut response = vec![0; 4096];
    let length = stream.read(&mut response).ok()?;
    Some(String::from_utf8_lossy(&response[..length]).into_owned())
}

#[test]
fn the_values_of_requests_that_wait_are_limited_for_each_principal() {
    let far = McpServer::echo();
    // The list of the server's tools does not arrive, so requests wait for the list.
    far.set_mood(Mood::Asleep);
    let server = Server::start(&format!(
        "[mcp]\ndiscovery_timeout_ms = 120000\n[executor]\ntimeout_ms = 120000\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         tool_prefix = \"\"\n",
        far.url
    ));
    let before = server.daemon.memory_bytes("VmHWM");
    let mut streams = Vec::new();
    for value in VALUES {
        for (path, body) in bodies(value) {
            for _ in 0..4 {
                streams.push(send(&server, RUNNER, path, &body));
            }
        }
    }
    let call = |token: &str, values: usize| {
        let path = "POST /api/v1/tools/execute/get_time";
        let body = json!({"timezone": "UTC", "more": vec![0; values]}).to_string();
        server.authorized(token, path, &body)
    };
    // Each of these requests waits for the requests before it.
    eventually("the account is full", || call(RUNNER, 400_000).0 == 429);
    let (status, head, body) = call(RUNNER, 400_000);
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &problem["error_code"]),
        (429, &"rate_limited".into())
    );
    assert_contains!(head, "retry-after: 1");
    // Small requests of this principal, and those of others, are served.
    assert_eq!(call(RUNNER, 100).0, 200);
    assert_eq!(call(HERS, 400_000).0, 200);
    let growth = server.daemon.memory_bytes("VmHWM") - before;
    assert!(growth < 600 * MIB, "{} MiB", growth / MIB);

    let responses = streams.iter_mut().filter_map(response);
    let statuses: Vec<_> = responses.map(|it| it[9..12].to_owned()).collect();
    let rejected = statuses.iter().filter(|it| *it == "429").count();
    assert!(rejected > 60 && rejected < streams.len(), "{statuses:?}");
    // Clients that disconnect free their memory.
    drop(streams);
    eventually("the memory is free", || call(RUNNER, 400_000).0 == 200);
}
