use pillion_testkit::Endpoint;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn probe_reports_what_was_tried_what_is_spoken_and_what_is_offered() {
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on("initialize", fixed(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "prompts": {}},
                "serverInfo": {"name": "fa\u{1b}[2Jke", "version": "1"}, "instructions": "Roll.\nWell.",
            })))
        .on("prompts/list", fixed(json!({"prompts": [{"name": "p"}]})))
        .start();
    let output = mcp(&["probe", &server.url]);
    assert_eq!(
        stdout(&output),
        "Tried\n  \
           POST server/discover (2026-07-28): not supported by the server\n  \
           POST initialize (2025-11-25): revision 2025-06-18\n\
         Speaks\n  \
           transport     streamable_http\n  \
           revision      2025-06-18\n  \
           server        fa\\u{1b}[2Jke 1\n  \
           capabilities  tools, prompts\n  \
           instructions  Roll. Well.\n\
         Offers\n     \
              1 tools      roll\n     \
              1 prompts    p\n"
    );
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
    let gone = server.requests.all();
    assert_eq!(
        gone.last().unwrap().method,
        "DELETE",
        "the session is ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_is_detected_and_reported_as_json() {
    let server = FakeMcp::start(Dialect::LegacySse(Endpoint::Relative));
    let found = stdout_json(&mcp(&["probe", &server.url, "--json"]));
    assert_eq!(found["transport"], "legacy_sse");
    assert_eq!(found["server"]["serverInfo"]["name"], "fake");
    assert_eq!(found["offers"], json!({"tools": ["roll"]}));
    assert_eq!(found["steps"].items().len(), 3);
    assert_eq!(found["steps"][1]["error"], "HTTP 405");
}

#[test]
fn a_server_that_is_down_is_reported_with_the_attempts() {
    let url = "http://127.0.0.1:9/mcp";
    let output = mcp(&["probe", url]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stdout(&output),
        "Tried\n  POST server/discover (2026-07-28): failed: Connection refused (os error 111) (http://127.0.0.1:9)\n"
    );
    assert_eq!(
        stderr(&output),
        "pillion: http://127.0.0.1:9/mcp: MCP request failed: Connection refused (os error 111) (http://127.0.0.1:9) (unavailable)\n"
    );
    let output = mcp(&["probe", url, "--json"]);
    let error = stdout_json(&output);
    assert_eq!(
        (output.status.code(), &error["error_code"]),
        (Some(1), &json!("unavailable"))
    );
    let expected = "Connection refused (os error 111) (http://127.0.0.1:9)";
    assert_eq!(error["details"]["steps"][0]["error"], expected);
}
