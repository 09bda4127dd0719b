use pillion_testkit::Reply;

use super::*;

fn server() -> FakeMcp {
    FakeMcp::builder(Dialect::StreamableJson)
        .on("resources/read", |params| match params["uri"].as_str() {
            Some("a://text") => Reply::result(&json!({"contents": [{"uri": "a://text", "text": "hi"}]})),
            Some("a://blob") => {
                Reply::result(&json!({"contents": [{"uri": "a://blob", "blob": "AAEC/w=="}]}))
            }
            Some("a://two") => Reply::result(&json!({"contents": [
                {"uri": "a://1", "text": "one"}, {"uri": "a://2", "mimeType": "x/y", "blob": "AAEC"},
            ]})),
            _ => Reply::error(-32002, "Resource not found"),
        })
        .on("prompts/get", |params| {
            let text = params["arguments"]["n"].to_string();
            match params["name"].as_str() {
                Some("count") => Reply::result(&json!({"messages": [
                    {"role": "user", "content": {"type": "text", "text": text}},
                ]})),
                _ => Reply::error(-32602, "Unknown prompt"),
            }
        })
        .on("prompts/list", fixed(json!({"prompts": [{"name": "count"}]})))
        .start()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_printed_byte_for_byte() {
    let server = server();
    assert_eq!(mcp(&["read", &server.url, "a://text"]).stdout, b"hi");
    assert_eq!(
        mcp(&["read", &server.url, "a://blob"]).stdout,
        [0, 1, 2, 255]
    );
    let expected = "one\n[x/y, 3 bytes]\n";
    assert_eq!(stdout(&mcp(&["read", &server.url, "a://two"])), expected);
    let error = failure(&mcp(&["read", &server.url, "a://nope"]), 1);
    assert_ends_with!(error, "MCP Error -32002: Resource not found (not_found)\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompts_arguments_are_strings() {
    let server = server();
    let text = "user: \"5\"\n";
    assert_eq!(stdout(&mcp(&["prompt", &server.url, "count", "n=5"])), text);
    let error = failure(&mcp(&["prompt", &server.url, "nope"]), 1);
    assert_ends_with!(error, "Unknown prompt; available: count (not_found)\n");
}
