//! Definitions and results of MCP servers that violate the schema, as clients see them.

use pillion_testkit::Reply;

use super::clients::{bridge, run};
use super::*;

/// Clients that read a list as a whole, and fail if one entry violates the schema.
const CLIENTS: [&str; 3] = ["lists-python1", "lists-python2", "lists-node"];

fn config(url: &str) -> String {
    server_entry("far", url, "tool_prefix = \"\"")
}

/// Starts a server whose lists have valid and invalid entries.
fn careless() -> FakeMcp {
    let object = json!({"type": "object"});
    let tools = json!({"tools": [
        {"name": "good", "inputSchema": object},
        {"name": "bare"},
        {"name": "described", "description": 5, "title": null, "inputSchema": []},
        {"name": "flagged", "inputSchema": {"properties": {"any": true}, "required": null}},
        {"name": "listing", "inputSchema": object, "outputSchema": {"type": "array"}},
        {"name": "mute", "inputSchema": object, "outputSchema": 7, "annotations": {"readOnlyHint": "yes"}},
        {"description": "It has no name", "inputSchema": object},
        {"name": "textual", "inputSchema": {"type": "string"}},
        {"name": "untyped", "inputSchema": {"properties": {"a": 5}}},
        7,
    ]});
    let resources = json!({"resources": [
        {"uri": "memo://a", "name": "a"},
        {"uri": "memo://b"},
        {"uri": "memo://c", "name": "c", "mimeType": 7, "size": "big", "annotations": null},
        {"name": "nowhere"},
        {"uri": "no scheme", "name": "relative"},
    ]});
    let templates = json!({"resourceTemplates": [
        {"uriTemplate": "memo://{x}", "name": "x"},
        {"uriTemplate": "memo://y/{y}", "title": "y"},
        {"name": "nowhere"},
    ]});
    let prompts = json!({"prompts": [
        {"name": "p", "arguments": [{"name": "q", "required": true}]},
        {"name": "r", "description": {}, "arguments": null},
        {"name": "s", "arguments": {"q": "text"}},
        {"title": "It has no name"},
    ]});
    FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", move |_| Reply::result(&tools))
        .on("resources/list", move |_| Reply::result(&resources))
        .on("resources/templates/list", move |_| {
            Reply::result(&templates)
        })
        .on("prompts/list", move |_| Reply::result(&prompts))
        .start()
}

/// Returns what each installed client prints.
fn read_by_clients(sidecar: &Sidecar, tools: &[&str]) -> Vec<Value> {
    let url = bridge(&sidecar.socket);
    let arguments = [&[&*url], tools].concat();
    let printed: String = CLIENTS
        .iter()
        .filter_map(|client| run(client, &arguments))
        .collect();
    let lines = printed.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_bad_definitions_hide_no_other_entry_from_real_clients() {
    let server = careless();
    let sidecar = Sidecar::with_config(&config(&server.url));
    for lists in read_by_clients(&sidecar, &[]) {
        let tools = lists["tools"].items();
        let of_server = &tools[tools.len() - 6..];
        let expected = ["good", "bare", "described", "flagged", "listing", "mute"];
        assert_eq!(of_server, expected, "{lists}");
        assert!(tools.contains(&json!("calculator")), "{lists}");
        assert_json!(lists["resources"], json!(["a", "memo://b", "c"]));
        assert_json!(lists["templates"], json!(["x", "y"]));
        assert_json!(lists["prompts"], json!(["p", "r"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_definitions_are_repaired_for_every_revision() {
    let server = careless();
    let sidecar = Sidecar::with_config(&config(&server.url));
    let old = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let sessions = old.map(|version| Session::open(&sidecar.socket, version, json!({})));
    let list = |method: &str| {
        let old = sessions
            .iter()
            .map(|session| session.ask(method, json!({})));
        let new = ask(&sidecar.socket, method, json!({}));
        let responses = old.chain([new]);
        let results: Vec<_> = responses
            .map(|response| response["result"].clone())
            .collect();
        results
    };
    for (index, result) in list("tools/list").iter().enumerate() {
        let tools = result["tools"].items();
        let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name);
        let empty = json!({"type": "object", "properties": {}});
        let bare = json!({"name": "bare", "inputSchema": empty});
        assert_eq!(tool("bare"), Some(&bare));
        let described = json!({"name": "described", "inputSchema": empty});
        assert_eq!(tool("described"), Some(&described));
        let schema = json!({"type": "object", "properties": {"any": {}}});
        assert_eq!(tool("flagged").unwrap()["inputSchema"], schema);
        // Before 2026-07-28, structured results are objects.
        let output = tool("listing").unwrap().get("outputSchema");
        assert_eq!(output.is_some(), index == old.len());
        assert_eq!(tool("mute").unwrap()["annotations"], json!({}));
        assert!(
            ["textual", "untyped"]
                .iter()
                .all(|name| tool(name).is_none())
        );
    }
    for result in list("resources/list") {
        let resources = json!([
            {"uri": "memo://a", "name": "a"},
            {"uri": "memo://b", "name": "memo://b"},
            {"uri": "memo://c", "name": "c"},
        ]);
        assert_eq!(result["resources"], resources);
    }
    for result in list("prompts/list") {
        assert_eq!(result["prompts"][1], json!({"name": "r"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_a_bad_definition_is_logged_once_with_server_entry_and_reason() {
    let server = careless();
    let daemon = Daemon::with_config(&config(&server.url));
    for _ in 0..3 {
        ask(&daemon.socket, "resources/list", json!({}));
        ask(&daemon.socket, "tools/list", json!({}));
    }
    let log = daemon.log();
    for line in [
        r#"The tool \"textual\" of MCP server `far` was dropped: `inputSchema` is not a JSON Schema of type object"#,
        r#"The tool \"described\" of MCP server `far` was repaired: `description` is not a string and was removed"#,
        r#"The resource \"nowhere\" of MCP server `far` was dropped: `uri` is missing"#,
        r#"The resource \"no scheme\" of MCP server `far` was dropped: `uri` is not an absolute URI"#,
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}\n{log}");
    }
    let path = "/api/v1/servers/far/resources";
    let listed = daemon.get(path).json();
    let names: Vec<_> = listed["resources"]
        .items()
        .iter()
        .map(|entry| entry["name"].text())
        .collect();
    assert_eq!(names, ["a", "memo://b", "c"]);
    let path = "/api/v1/servers/far/tools";
    let listed = daemon.get(path).json();
    assert_json!(listed["total"], 6);
}

/// The tools of [`answering`] with their results, and the text and the structured content that
/// clients get.
const RESULTS: [(&str, &str, &str, &str); 7] = [
    (
        "bare",
        r#"{"total": 15}"#,
        r#"["{\"total\": 15}"]"#,
        r#"{"total": 15}"#,
    ),
    ("text", r#""words""#, r#"["\"words\""]"#, "null"),
    ("number", "15", r#"["15"]"#, "null"),
    ("list", "[1, 2]", r#"["[1, 2]"]"#, "null"),
    (
        "structured",
        r#"{"structuredContent": {"total": 15}}"#,
        r#"["{\"total\":15}"]"#,
        r#"{"total": 15}"#,
    ),
    (
        "blocks",
        r#"{"content": [{"type": "text", "text": "a", "annotations": null}, {"type": "hologram"}]}"#,
        r#"["a", "{\"type\":\"hologram\"}"]"#,
        "null",
    ),
    (
        "fine",
        r#"{"content": [{"type": "text", "text": "a"}], "structuredContent": {"b": 1}}"#,
        r#"["a"]"#,
        r#"{"b": 1}"#,
    ),
];

/// Starts a server whose tools return [`RESULTS`].
fn answering() -> FakeMcp {
    let tools = RESULTS.map(|(name, ..)| json!({"name": name, "inputSchema": {"type": "object"}}));
    let tools = json!({ "tools": tools });
    FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", move |_| Reply::result(&tools))
        .on("tools/call", |params| {
            let mut results = RESULTS.iter();
            let found = results.find(|(name, ..)| params["name"] == *name);
            Reply::raw_result(found.unwrap().1)
        })
        .start()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_read_results_that_are_not_call_tool_results() {
    let server = answering();
    let sidecar = Sidecar::with_config(&config(&server.url));
    let names = RESULTS.map(|(name, ..)| name);
    for printed in read_by_clients(&sidecar, &names) {
        for (name, _, text, structured) in RESULTS {
            let text: Value = serde_json::from_str(text).unwrap();
            let structured: Value = serde_json::from_str(structured).unwrap();
            let expected = json!({"text": text, "structured": structured, "failed": false});
            assert_eq!(printed["calls"][name], expected, "{name}: {printed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_not_call_tool_results_become_one_for_every_revision() {
    let server = answering();
    // The second result of these tools comes from the cache.
    let cached = "[tools.text]\ncache_ttl_ms = 60000\n[tools.list]\ncache_ttl_ms = 60000\n[tools.bare]\ncache_ttl_ms = 60000\n";
    let sidecar = Sidecar::with_config(&(cached.to_owned() + &config(&server.url)));
    let old = ["2024-11-05", "2025-06-18", "2025-11-25"];
    let sessions = old.map(|version| Session::open(&sidecar.socket, version, json!({})));
    for (name, written, text, structured) in RESULTS {
        let params = json!({"name": name, "arguments": {}});
        let mut responses = vec![ask(&sidecar.socket, "tools/call", params.clone())];
        responses.extend(
            sessions
                .iter()
                .map(|session| session.ask("tools/call", params.clone())),
        );
        for response in responses {
            let result = &response["result"];
            let blocks = result["content"].items();
            assert!(blocks.iter().all(|block| block["type"] == "text"));
            let texts: Vec<_> = blocks.iter().map(|block| &block["text"]).collect();
            // A cached result is serialized again, so the text may differ.
            if !["bare", "list"].contains(&name) {
                let text: Value = serde_json::from_str(text).unwrap();
                assert_eq!(json!(texts), text, "{response}");
            }
            let structured: Value = serde_json::from_str(structured).unwrap();
            assert_eq!(result["structuredContent"], structured, "{response}");
        }
        // The REST API returns what the server wrote.
        let client = sidecar.client();
        let raw = client.run_tool(name, &json!({}), &Caller::default());
        let written: Value = serde_json::from_str(written).unwrap();
        assert_eq!(raw.data, written);
    }
    // Some results came from the cache.
    assert!(server.requests.count("tools/call") < RESULTS.len() * 5);
}
