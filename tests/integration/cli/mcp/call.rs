use pillion_testkit::Reply;

use super::*;

/// Starts a server whose `roll` returns its arguments as text.
fn server() -> FakeMcp {
    FakeMcp::builder(Dialect::StreamableJson)
        .on(
            "tools/list",
            fixed(json!({"tools": [{"name": "roll", "inputSchema": {
                "type": "object",
                "properties": {
                    "dice": {"type": "string"}, "times": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            }}]})),
        )
        .on("tools/call", |params| match params["name"].as_str() {
            Some("roll") => {
                let text = params["arguments"].to_string();
                Reply::result(&json!({"content": [{"type": "text", "text": text}]}))
            }
            Some("broken") => Reply::result(&json!({
                "content": [{"type": "text", "text": "no\ndice"}], "isError": true,
            })),
            _ => Reply::error(-32602, "Unknown tool"),
        })
        .start()
}

fn sent(server: &FakeMcp) -> Value {
    server.requests.calls("tools/call").last().unwrap().json()["params"]["arguments"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_are_typed_by_the_tools_schema() {
    let server = server();
    let output = mcp(&[
        "call",
        &server.url,
        "roll",
        "dice=20",
        "times=3",
        "tags=a",
        "tags=b",
        "other=1",
    ]);
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
    let expected = json!({"dice": "20", "times": 3, "tags": ["a", "b"], "other": 1});
    assert_eq!(sent(&server), expected);
    assert_eq!(stdout_json(&output), expected);

    assert_eq!(
        failure(&mcp(&["call", &server.url, "roll", "times=often"]), 2),
        "pillion: 'times' must be an integer, not 'often' (invalid_input)\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_read_from_the_command_line_standard_input_or_a_file() {
    let server = server();
    mcp(&["call", &server.url, "roll", r#"{"dice": "1d4"}"#]);
    assert_eq!(sent(&server), json!({"dice": "1d4"}));

    let mut call = pillion(&["mcp", "call", &server.url, "roll", "-"]);
    success(&run_with_input(&mut call, r#"{"dice": "1d6"}"#));
    assert_eq!(sent(&server), json!({"dice": "1d6"}));

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(br#"{"dice": "1d8"}"#).unwrap();
    let from_file = format!("@{}", file.path().display());
    mcp(&["call", &server.url, "roll", &from_file]);
    assert_eq!(sent(&server), json!({"dice": "1d8"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_json_output_is_the_unchanged_result_of_the_server() {
    let server = FakeMcp::start_with(Dialect::StreamableSse, "tools/call", |_| {
        Reply::raw_result(r#"{"content":[], "n":1.50,"big":18446744073709551617}"#)
    });
    let output = mcp(&["call", "--json", &server.url, "roll"]);
    let expected = "{\"content\":[], \"n\":1.50,\"big\":18446744073709551617}\n";
    assert_eq!(stdout(&output), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_fails_ends_with_1() {
    let server = server();
    let output = mcp(&["call", &server.url, "broken"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "")
    );
    assert_eq!(
        stderr(&output),
        "pillion: no\ndice (tool_error); available: roll\n",
        "the tool's text keeps its lines"
    );
    let output = mcp(&["call", &server.url, "broken", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout_json(&output)["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tool_is_reported_with_the_available_tools() {
    let server = server();
    let output = mcp(&["call", &server.url, "nope"]);
    assert_eq!(output.status.code(), Some(1));
    let line = format!(
        "pillion: {}: MCP Error -32602: Unknown tool; available: roll (not_found)\n",
        server.url
    );
    assert_eq!(stderr(&output), line);
    let error = stdout_json(&mcp(&["call", &server.url, "nope", "--json"]));
    assert_eq!(error["error_code"], "not_found");
    assert_eq!(error["details"]["rpc"]["code"], -32602);
    assert_eq!(error["details"]["available"], json!(["roll"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_a_mismatch_with_the_output_schema_is_reported_with_the_result() {
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on(
            "tools/list",
            fixed(
                json!({"tools": [{"name": "roll", "inputSchema": {}, "outputSchema": {
                    "type": "object", "properties": {"total": {"type": "integer"}},
                }}]}),
            ),
        )
        .on(
            "tools/call",
            fixed(json!({"content": [], "structuredContent": {"total": "many"}})),
        )
        .start();
    let output = mcp(&["call", &server.url, "roll"]);
    assert_eq!(success(&output), "{\n  \"total\": \"many\"\n}\n");
    let reported = stderr(&output);
    let lines: Vec<_> = reported.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_starts_with!(
        lines[0],
        "pillion: the structured content does not match the tool's output schema: at '/total'"
    );
}
