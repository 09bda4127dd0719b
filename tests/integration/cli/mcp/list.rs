use pillion_testkit::Reply;

use super::*;

fn server() -> FakeMcp {
    FakeMcp::builder(Dialect::StreamableJson)
        .on("initialize", |params| {
            Reply::result(&json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}},
            }))
        })
        .on("resources/list", |_| {
            Reply::raw_result(r#"{"resources":[{"uri":"a://1","name":"One", "x":1.50}]}"#)
        })
        .on(
            "resources/templates/list",
            fixed(json!({"resourceTemplates": [{"uriTemplate": "a://{n}", "name": "Any"}]})),
        )
        .start()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_list_has_one_line_for_each_item() {
    let server = server();
    for arguments in [
        ["list", "tools", &server.url],
        ["list", &server.url, "tools"],
    ] {
        assert_eq!(stdout(&mcp(&arguments)), "roll  Rolls dice\n");
    }
    let verbose = mcp(&["list", "tools", &server.url, "--verbose"]);
    let expected = "roll  Rolls dice\n    dice: a string, optional\n";
    assert_eq!(stdout(&verbose), expected);
    assert!(
        !stderr(&verbose).contains('\u{1b}'),
        "no colors into a pipe"
    );
    assert_eq!(stdout(&mcp(&["list", "prompts", &server.url])), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kind_everything_is_listed() {
    let server = server();
    let output = mcp(&["list", &server.url]);
    assert_eq!(
        stdout(&output),
        "tools (1)\n  roll  Rolls dice\n\nresources (1)\n  a://1  One\n\ntemplates (1)\n  a://{n}  Any\n"
    );
    assert!(server.requests.calls("prompts/list").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_json_output_contains_the_unchanged_items_of_the_server() {
    let server = server();
    let output = mcp(&["list", "resources", &server.url, "--json"]);
    let expected = "{\"resources\":[{\"uri\":\"a://1\",\"name\":\"One\", \"x\":1.50}]}\n";
    assert_eq!(stdout(&output), expected);
    let output = mcp(&["list", "templates", &server.url, "--json"]);
    assert_starts_with!(stdout(&output), "{\"resourceTemplates\":[{");
}
