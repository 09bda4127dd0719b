//! `mcp.tools`: which tools clients are offered.

use super::*;

const SUM: &str = r#"
[[composed_tools]]
name = "answer"
description = "Six times seven"
steps = [{ name = "a", tool = "calculator", arguments = { expression = "6 * 7" } }]
"#;

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].items().iter();
    tools.map(|tool| tool["name"].text()).collect()
}

fn config(tools: &str, url: &str) -> String {
    format!(
        "[mcp]\ntools = {tools}\n{SUM}[[mcp_servers]]\nlabel = \"far\"\nurl = \"{url}\"\n\
         transport = \"streamable_http\"\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn one_setting_selects_the_tools_of_mcp_clients() {
    let prompts = json!({"prompts": [{"name": "greet"}]});
    let server = FakeMcp::start_with(Dialect::StreamableJson, "prompts/list", fixed(prompts));
    for (tools, expected, prompts) in [
        (r#"["!@builtin"]"#, &["answer", "roll"][..], 1),
        (r#"["@servers"]"#, &["roll"], 1),
        (r#"["answer"]"#, &["answer"], 0),
        ("[]", &[], 0),
    ] {
        // The tools that only tests have are offered in addition to those of the configuration.
        let tools = tools.replace(
            "[\"!",
            "[\"!sleep\", \"!panic\", \"!who\", \"!both\", \"!refuse\", \"!",
        );
        let sidecar = Sidecar::with_config(&config(&tools, &server.url));
        let list = ask(&sidecar.socket, "tools/list", json!({}));
        assert_eq!(names(&list), expected, "{tools}");
        let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
        let list = session.ask("prompts/list", json!({}));
        assert_eq!(list["result"]["prompts"].items().len(), prompts);
        // MCP clients cannot call a tool that is not offered, by any of its names.
        for name in ["calculator", "time_tool"] {
            let called = session.ask("tools/call", json!({"name": name, "arguments": {}}));
            assert_eq!(called["error"]["message"], format!("Unknown tool: {name}"));
        }
        // The tool is still available to a composed tool that calls it, and to other interfaces.
        if expected.contains(&"answer") {
            let called = ask(
                &sidecar.socket,
                "tools/call",
                json!({"name": "answer", "arguments": {}}),
            );
            assert_json!(called["result"]["isError"], false);
        }
        let path = "/api/v1/tools/execute/calculator";
        let called = sidecar.post(path, r#"{"expression": "6 * 7"}"#).json();
        assert_json!(called["result"]["data"]["result"], 42);
    }
}

#[test]
fn clients_are_notified_when_a_reload_changes_the_offered_tools() {
    let daemon = Daemon::with_config("");
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let mut stream = session.listen();
    reload(&daemon, "[mcp]\ntools = [\"calculator\"]\n");
    let notice = stream.next().unwrap();
    assert_eq!(notice["method"], "notifications/tools/list_changed");
    assert_eq!(names(&session.ask("tools/list", json!({}))), ["calculator"]);
}
