use pillion_testkit::Reply;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_times_out_is_cancelled_at_the_server() {
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .with_slow_calls(Duration::from_secs(60))
        .start();
    let since = Instant::now();
    let output = mcp(&["call", &server.url, "roll", "--timeout", "700ms", "--json"]);
    assert!(since.elapsed() < Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(1));
    let error = stdout_json(&output);
    assert_eq!(error["error_code"], "timeout");
    assert_eq!(server.requests.count("notifications/cancelled"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_mcp_is_reported_in_one_line() {
    let page = "<html>hunter2</html>";
    let responses = [
        Fault::response("200 OK", "text/html", page),
        Fault::response("404 Not Found", "text/html", page),
        Fault::text("500 Internal Server Error", page),
        Fault::json("{}"),
    ];
    for response in responses {
        let server = FaultServer::start(move |_| vec![response.clone()]).await;
        let reported = failure(&mcp(&["call", &server.url, "roll", "--timeout", "5"]), 1);
        assert_starts_with!(reported, &format!("pillion: {}: ", server.url));
        assert_eq!(
            (reported.lines().count(), reported.contains("hunter2")),
            (1, false),
            "{reported}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flooding_server_is_disconnected() {
    let server = FakeMcp::start_with(Dialect::StreamableSse, "tools/call", |_| {
        let text = "x".repeat(20 * 1024 * 1024);
        Reply::result(&json!({"content": [{"type": "text", "text": text}]}))
    });
    let output = mcp(&["call", &server.url, "roll"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "")
    );
    let reported = stderr(&output);
    assert_contains!(reported, "larger than");
    assert_eq!(reported.lines().count(), 1, "{reported}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_many_lines_with_escapes_is_one_line() {
    let server = FakeMcp::start_with(Dialect::StreamableJson, "tools/call", |_| {
        Reply::error(-32603, "a\nb\u{1b}]0;c\u{7}")
    });
    let reported = stderr(&mcp(&["call", &server.url, "roll"]));
    assert_eq!(
        reported,
        format!(
            "pillion: {}: MCP Error -32603: a b\\u{{1b}}]0;c\\u{{7}} (internal_error)\n",
            server.url
        )
    );
}
