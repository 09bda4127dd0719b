use pillion_client::Caller;
use pillion_wire::route;
use serde_json::json;

use crate::http;
use crate::mcp_server::{McpServer, Mood};
use crate::program::eventually;
use crate::sidecar::Sidecar;

fn lines(sidecar: &Sidecar) -> String {
    let reply = http::get(&sidecar.socket, "/metrics");
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .head
            .contains("content-type: application/openmetrics-text"),
        "{}",
        reply.head
    );
    String::from_utf8(reply.body).unwrap()
}

#[test]
fn m1_calls_are_counted_by_tool_and_outcome_and_their_time_in_a_histogram() {
    let sidecar = Sidecar::start();
    let client = sidecar.client();
    let call = |tool: &str, arguments| {
        client
            .execute(tool, &arguments, &Caller::default())
            .unwrap();
    };
    call("calculator", json!({"expression": "1 + 1"}));
    call("calculator", json!({"expression": "1 / 0"}));
    call("nothing of that name", json!({}));
    let batch =
        json!({"calls": [{"id": "a", "name": "calculator", "arguments": {"expression": "2"}}]});
    http::post(
        &sidecar.socket,
        "/api/v1/tools/batch-execute",
        batch.to_string(),
    );
    let text = lines(&sidecar);
    for line in [
        "pillion_tool_calls_total{tool=\"calculator\",outcome=\"success\"} 2",
        "pillion_tool_calls_total{tool=\"calculator\",outcome=\"invalid_input\"} 1",
        "pillion_tool_call_duration_seconds_count{tool=\"calculator\"} 3",
        "pillion_tool_calls_in_flight 0",
        "pillion_http_requests_total{method=\"POST\",route=\"/api/v1/tools/execute/{tool_name}\",status=\"200\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("nothing of that name"), "{text}");
    let resident = text
        .lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    assert!(resident.unwrap().parse::<u64>().unwrap() > 1_000_000);
}

#[test]
fn m1_a_cancelled_call_is_not_in_flight() {
    use std::io::Write;
    let sidecar = Sidecar::start();
    let mut stream = std::os::unix::net::UnixStream::connect(&sidecar.socket).unwrap();
    let head = "POST /api/v1/tools/execute/sleep HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"{\"ms\": 25000}").unwrap();
    sidecar.wait_for_sleeps(1);
    assert!(lines(&sidecar).contains("pillion_tool_calls_in_flight 1"));
    drop(stream);
    eventually("the call is given up", || {
        lines(&sidecar).contains("pillion_tool_calls_in_flight 0")
    });
}

#[test]
fn the_sidecar_is_ready_after_the_first_attempt_to_reach_every_server() {
    let ready = |sidecar: &Sidecar| http::get(&sidecar.socket, "/readyz");
    assert_eq!(ready(&Sidecar::start()).status, 200);

    let server = McpServer::start(json!([]));
    server.set_mood(Mood::Ill);
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n",
        server.url
    );
    let sidecar = Sidecar::with_config(&toml);
    let first = ready(&sidecar);
    assert_eq!(first.status, 503);
    assert_eq!(first.json()["status"], "starting");
    eventually("it is ready", || ready(&sidecar).status == 200);
    let answer = ready(&sidecar).json();
    assert_eq!(answer["unavailable_servers"][0]["label"], "far");
    let text = lines(&sidecar);
    assert!(
        text.contains("pillion_upstream_up{server=\"far\"} 0"),
        "{text}"
    );
}

#[test]
fn the_status_contains_calls_and_servers() {
    let server = McpServer::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]));
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n",
        server.url
    );
    let sidecar = Sidecar::with_config(&toml);
    let client = sidecar.client();
    let before = client.fetch(route::STATUS).unwrap();
    assert_eq!(before.servers[0].status, "disconnected");
    client
        .execute("far_echo", &json!({}), &Caller::default())
        .unwrap();
    client
        .execute("refuse", &json!({}), &Caller::default())
        .unwrap();
    let status = client.fetch(route::STATUS).unwrap();
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(status.pid, std::process::id());
    assert_eq!((status.calls.total, status.calls.failed), (2, 1));
    assert_eq!(status.servers[0].status, "connected");
    assert_eq!(status.servers[0].tools, 1);
    let echo = status
        .tools
        .iter()
        .find(|tool| tool.name == "far_echo")
        .unwrap();
    assert_eq!((echo.calls, echo.failed), (1, 0));
    assert!(echo.p50_ms.unwrap() > 0.0);
}
