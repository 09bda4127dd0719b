//! Responses of any size: a response within the limits is returned, a larger one is an error, and
//! neither needs more memory than the limits allow.

use super::*;

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn eight_mebibytes_arrive_over_every_transport() {
    let text = "0123456789abcde\n".repeat(MIB / 2);
    let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
    assert!(result.len() > 8 * MIB);
    let dialects = dialects().into_iter();
    let stateless = (Dialect::Stateless, TransportKind::Auto);
    for (dialect, transport) in dialects.chain([stateless]) {
        let response = result.clone();
        let server = FakeMcp::start_with(dialect.clone(), "tools/call", move |_| {
            Reply::raw_result(&response)
        });
        let client = client(&server.url, transport);
        let (first, second) = tokio::join!(roll(&client), roll(&client));
        assert!(first.unwrap().get() == result, "{dialect:?}");
        assert!(second.unwrap().get() == result, "{dialect:?}");
    }
}

#[test]
fn a_response_of_a_gibibyte_stays_within_the_memory_limit() {
    alone("large::inner_gibibyte", ("RUST_BACKTRACE", "0"));
}

/// Returns the peak memory of this process.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() * 1024
}

#[tokio::test]
#[ignore = "run by a_response_of_a_gibibyte_stays_within_the_memory_limit, in a process of its own"]
async fn inner_gibibyte() {
    let size = 1024 * MIB;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: {size}\r\n\r\n");
    let stream = || Fault::head(EVENT_STREAM);
    let gibibyte = |start: &str, bytes: &[u8]| vec![send(start), Fault::Times(1024, bytes.into())];
    let spaces = vec![b' '; MIB];
    let event = format!(": {}\n", "x".repeat(MIB - 3)).into_bytes();
    for (case, head, body) in [
        ("announced", send(&head), gibibyte("{", &spaces)),
        ("JSON", Fault::head(JSON), gibibyte("{", &spaces)),
        ("one event", stream(), gibibyte("data: {", &spaces)),
        ("comments", stream(), gibibyte("", &event)),
    ] {
        let mut faults = vec![head];
        faults.extend(body);
        faults.push(Fault::Close);
        let server = FaultServer::start(move |request| match request.rpc_method().as_str() {
            "tools/call" => faults.clone(),
            _ => in_session(request),
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        let error = roll(&client).await.unwrap_err();
        assert_matches!(
            error.kind(),
            McpErrorKind::TooLarge { .. } | McpErrorKind::Sse(_),
            "{case}"
        );
        client.ping().await.unwrap();
    }
    assert!(peak_bytes() < 200 * MIB, "{} bytes", peak_bytes());
}

#[tokio::test]
async fn ten_thousand_tools_in_pages_and_in_one() {
    for (dialect, per_page) in [
        (Dialect::StreamableJson, 100),
        (Dialect::StreamableSse, 10_000),
        (Dialect::Stateless, 2_500),
    ] {
        let server = FakeMcp::start_with(dialect, "tools/list", move |params| {
            let start: usize = params["cursor"].as_str().unwrap_or("0").parse().unwrap();
            let end = start + per_page;
            let tools: Vec<Value> = (start..end)
                .map(|n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}}))
                .collect();
            let mut page = json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"});
            if end < 10_000 {
                page["nextCursor"] = json!(end.to_string());
            }
            Reply::result(&page)
        });
        let client = client(&server.url, TransportKind::Auto);
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.len(), 10_000);
        for (n, tool) in tools.iter().enumerate() {
            assert_contains!(tool.get(), &format!("\"t{n}\""));
        }
        let lists = server.requests.count("tools/list");
        assert_eq!(lists, 10_000 / per_page);
        roll(&client).await.unwrap();
    }
}

#[tokio::test]
async fn a_million_tiny_events_before_the_answer() {
    let server = FaultServer::start(|request| {
        if request.rpc_method() != "tools/call" {
            return in_session(request);
        }
        let events = b"data: {}\n\n".repeat(1000);
        let response = Reply::raw_result("\"done\"").response(&request.rpc_id());
        vec![
            Fault::head(EVENT_STREAM),
            Fault::Times(1000, events),
            send(&format!("data: {response}\n\n")),
            Fault::Close,
        ]
    })
    .await;
    let mut config = config(&server.url, TransportKind::StreamableHttp);
    let error = roll(&McpClient::new(config.clone())).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::TooManyEvents { limit: 10_000 });
    config.limits.max_events = 1_000_001;
    config.timeout = Duration::from_secs(120);
    let result = roll(&McpClient::new(config)).await.unwrap();
    assert_eq!(result.get(), "\"done\"");
}
