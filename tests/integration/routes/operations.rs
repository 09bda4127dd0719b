use crate::prelude::*;

fn lines(sidecar: &Sidecar) -> String {
    let reply = sidecar.get("/metrics");
    assert_eq!(reply.status, 200);
    assert_contains!(reply.head, "content-type: application/openmetrics-text");
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
    sidecar.post("/api/v1/tools/batch-execute", batch.to_string());
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
    assert_lacks!(text, "nothing of that name");
    let resident = text
        .lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    assert!(resident.unwrap().parse::<u64>().unwrap() > 1_000_000);
}

#[test]
fn m1_a_cancelled_call_is_not_in_flight() {
    let sidecar = Sidecar::start();
    let target = "/api/v1/tools/execute/sleep";
    let stream = sidecar.begin("POST", target, "", r#"{"ms": 25000}"#);
    sidecar.wait_for_sleeps(1);
    assert_contains!(lines(&sidecar), "pillion_tool_calls_in_flight 1");
    drop(stream);
    eventually("the call is given up", || {
        lines(&sidecar).contains("pillion_tool_calls_in_flight 0")
    });
}

#[test]
fn the_sidecar_is_ready_after_the_first_attempt_to_reach_every_server() {
    let ready = |sidecar: &Sidecar| sidecar.get("/readyz");
    assert_eq!(ready(&Sidecar::start()).status, 200);

    let server = McpServer::start(json!([]));
    server.set_mood(Mood::Ill);
    let toml = detected_entry("far", &server.url, "");
    let sidecar = Sidecar::with_config(&toml);
    let first = ready(&sidecar);
    assert_eq!(first.expect(503)["status"], "starting");
    eventually("it is ready", || ready(&sidecar).status == 200);
    let response = ready(&sidecar).json();
    assert_eq!(response["unavailable_servers"][0]["label"], "far");
    assert_contains!(lines(&sidecar), "pillion_upstream_up{server=\"far\"} 0");
}

#[test]
fn the_status_contains_calls_and_servers() {
    let server = McpServer::echo();
    let toml = detected_entry("far", &server.url, "");
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
