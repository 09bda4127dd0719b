use pillion_client::wire::{ToolResponse, route};

use crate::prelude::*;

fn show(sidecar: &Sidecar, name: &str) -> ToolResponse {
    let client = sidecar.client();
    let response = client.request(route::SHOW_TOOL, [name]).send().unwrap();
    response.decode().unwrap()
}

#[test]
fn i4_a_tool_is_shown_like_in_the_list() {
    let far = McpServer::start(json!([
        {"name": "echo", "description": "hid\u{200b}den", "inputSchema": {"type": "object"}},
    ]));
    let sidecar = Sidecar::with_config(&detected_entry("far", &far.url, ""));
    // The list was not requested before.
    assert!(!show(&sidecar, "far_echo").tool.warnings.is_empty());
    let list = sidecar.client().fetch(route::LIST_TOOLS).unwrap();
    assert!(list.total > 4);
    for tool in list.tools {
        assert_eq!(show(&sidecar, &tool.name).tool, tool);
        let path = format!("/api/v1/tools/{}/", tool.name);
        assert_eq!(sidecar.get(&path).status, 200);
    }
}

#[test]
fn i4_an_unlisted_tool_is_a_problem() {
    let sidecar = Sidecar::start();
    let reply = sidecar.get("/api/v1/tools/nope");
    assert_eq!(reply.status, 404);
    assert_contains!(reply.head, "application/problem+json");
    let problem = reply.json();
    assert_eq!(problem["error_code"], "not_found");
    assert_eq!(problem["detail"], "Tool 'nope' not found");
    assert_eq!(problem["tool"], "nope");
    let available = problem["details"]["available_tools"].items();
    assert!(available.contains(&json!("calculator")), "{problem}");
    assert_eq!(sidecar.get("/api/v1/tools/%FF").status, 400);
}
