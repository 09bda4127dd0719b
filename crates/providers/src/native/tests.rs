use serde_json::json;

use super::*;
use crate::{Provider, format_permits, native_calls};

#[test]
fn h1_a_native_mcp_server_needs_no_description() {
    let server = NativeMcpServer::new("dmcp", "https://dmcp.example/mcp");
    let members = Provider::OpenAiResponses
        .api()
        .native_members(&server)
        .unwrap();
    assert_eq!(
        Value::Object(members),
        json!({"tools": [{"type": "mcp", "server_label": "dmcp",
               "server_url": "https://dmcp.example/mcp", "require_approval": "always"}]})
    );
    // Anthropic cannot request approval.
    assert_eq!(Provider::Anthropic.api().native_members(&server), None);
    assert_eq!(Provider::OpenAiChat.api().native_members(&server), None);
}

#[test]
fn h1_a_native_mcp_server_may_be_limited_to_some_of_its_tools() {
    let server = NativeMcpServer {
        allowed_tools: Some(vec!["roll".to_owned(), "wipe".to_owned()]),
        require_approval: NativeApproval::Except(vec!["roll".to_owned()]),
        token: Some("s3cret".into()),
        ..NativeMcpServer::new("dmcp", "https://dmcp.example/mcp")
    };
    let members = Provider::OpenAiResponses
        .api()
        .native_members(&server)
        .unwrap();
    assert_eq!(
        members["tools"][0],
        json!({"type": "mcp", "server_label": "dmcp",
               "server_url": "https://dmcp.example/mcp",
               "authorization": "s3cret",
               "allowed_tools": ["roll", "wipe"],
               "require_approval": {"never": {"tool_names": ["roll"]}}})
    );
    assert_eq!(Provider::Anthropic.api().native_members(&server), None);
    let server = NativeMcpServer {
        allowed_tools: Some(vec!["roll".to_owned()]),
        require_approval: NativeApproval::Never,
        ..server
    };
    assert_eq!(
        Provider::Anthropic
            .api()
            .native_members(&server)
            .map(Value::Object),
        Some(json!({
            "mcp_servers": [{"type": "url", "name": "dmcp", "url": "https://dmcp.example/mcp",
                             "authorization_token": "s3cret"}],
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "dmcp",
                       "default_config": {"enabled": false},
                       "configs": {"roll": {"enabled": true}}}],
        }))
    );
    assert!(!format!("{server:?}").contains("s3cret"));
}

#[test]
fn h1_native_calls_of_openai_are_read() {
    let response = json!({"output": [
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "lost", "tools": [],
         "error": {"type": "http_error", "code": 404, "message": "not found"}},
        {"type": "mcp_list_tools", "id": "mcpl_2", "server_label": "dmcp", "tools": [], "error": null},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "dmcp", "name": "roll",
         "arguments": "{\"sides\":6}", "output": "4", "error": null},
        {"type": "mcp_call", "id": "mcp_2", "server_label": "dmcp", "name": "roll",
         "arguments": "{}", "output": null,
         "error": {"type": "mcp_protocol_error", "code": -32602, "message": "sides is missing"}},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "dmcp", "name": "wipe",
         "arguments": "{}"},
    ]});
    let calls = native_calls(Provider::OpenAiResponses, &response).unwrap();
    assert_eq!(calls.unlisted_servers, ["lost"]);
    let [(_, first), (_, second)] = &calls.finished_calls[..] else {
        panic!("{:?}", calls.finished_calls);
    };
    assert_eq!(first.content(), "4");
    assert!(!second.success);
    assert_eq!(second.error.as_deref(), Some("sides is missing"));
    assert_eq!(calls.permission_requests.len(), 1);
    assert_eq!(calls.permission_requests[0].call.name, "wipe");
}

#[test]
fn h1_native_calls_of_anthropic_are_read() {
    let call = |id: &str| {
        json!({"type": "mcp_tool_use", "id": id, "name": "roll", "server_name": "dmcp",
               "input": {"sides": 6}})
    };
    let response = json!({"content": [
        call("mcptoolu_1"),
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": false,
         "content": [{"type": "text", "text": "4"}]},
        call("mcptoolu_2"),
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_2", "is_error": true,
         "content": [{"type": "text", "text": "no dice"}]},
        call("mcptoolu_3"),
    ]});
    let calls = native_calls(Provider::Anthropic, &response).unwrap();
    assert!(calls.permission_requests.is_empty());
    let [(call, first), (_, second)] = &calls.finished_calls[..] else {
        panic!("{:?}", calls.finished_calls);
    };
    assert_eq!(call.server, "dmcp");
    assert_eq!(call.call.arguments, json!({"sides": 6}));
    assert_eq!(first.content(), "4");
    assert!(!second.success);
    assert!(second.content().contains("no dice"));
}

#[test]
fn g3_a_denial_contains_its_reason() {
    let denial = ToolResult::failure("mcpr_1", "dmcp_wipe", ErrorCode::Denied, "not today");
    let denied = [denial];
    assert_eq!(
        format_permits(Provider::OpenAiResponses, &denied),
        [
            json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1",
                "approve": false, "reason": "not today"})
        ]
    );
    assert!(format_permits(Provider::Anthropic, &denied).is_empty());
}
