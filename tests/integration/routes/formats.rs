//! Conversion to and from the formats of model providers, as the PHP library uses it.

use crate::prelude::*;

fn convert(sidecar: &Sidecar, path: &str, body: &Value) -> Value {
    sidecar
        .post(&format!("/api/v1/formats/{path}"), body.to_string())
        .json()
}

#[test]
fn h1_definitions_responses_and_results_are_converted() {
    let sidecar = Sidecar::start();
    let tool = json!({"name": "ping", "description": "Says pong", "inputSchema": {}});
    let definitions = json!({"tools": [tool]});
    let tools = convert(&sidecar, "tools?provider=openai", &definitions);
    assert_eq!(tools["success"], true);
    let function = &tools["tools"][0]["function"];
    assert_eq!(function["name"], "ping");
    assert_eq!(function.get("strict"), None);
    let definitions = json!({"tools": [tool], "alwaysStrict": true});
    let tools = convert(&sidecar, "tools?provider=openai", &definitions);
    assert_eq!(tools["tools"][0]["function"]["strict"], false);
    let unknown = convert(&sidecar, "tools?provider=hal9000", &definitions);
    assert_eq!(unknown["tools"], json!([]));

    let response = json!({"content": [
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {"n": 1.0}},
    ]});
    let calls = convert(&sidecar, "tool-calls?provider=anthropic", &response);
    assert_eq!(calls["calls"][0]["id"], "toolu_1");
    assert_eq!(calls["calls"][0]["arguments"], json!({"n": 1.0}));
    let text = convert(&sidecar, "text?provider=anthropic", &response);
    assert_eq!(text["text"], "One moment.");
    let messages = convert(&sidecar, "messages?provider=anthropic", &response);
    assert_eq!(messages["messages"][0]["content"], response["content"]);

    let results = json!({"results": [
        {"tool_call_id": "toolu_1", "tool_name": "ping", "success": false, "error": "No"},
    ]});
    let messages = convert(&sidecar, "results?provider=anthropic", &results);
    let block = &messages["messages"][0]["content"][0];
    assert_eq!(block["is_error"], true);
    assert_eq!(block["content"], r#"{"error":"No"}"#);
}

#[test]
fn h1_what_cannot_be_converted_is_invalid_input() {
    let sidecar = Sidecar::start();
    let problem = |path: &str, body: Value| {
        let problem = convert(&sidecar, path, &body);
        assert_json!(problem["status"], 400);
        assert_eq!(problem["error_code"], "invalid_input");
        problem["detail"].text().to_owned()
    };
    let expected = "Unknown provider 'hal9000': use openai, openai-responses, anthropic or google";
    assert_eq!(problem("text?provider=hal9000", json!({})), expected);
    assert_eq!(
        problem("text?provider=openai", json!({"choices": []})),
        "Malformed response of the provider 'openai': choices[0] is missing"
    );
    let failed = json!({"error": {"message": "Overloaded"}});
    assert_eq!(
        problem("tool-calls?provider=google", failed),
        "The provider 'google' reported an error: Overloaded"
    );
    let unnamed = json!({"tools": [{"name": "a b", "description": "d", "inputSchema": {}}]});
    assert_eq!(
        problem("tools?provider=openai", unnamed),
        "Invalid tool name 'a b': use letters, digits, '_' and '-', starting with a letter or '_'"
    );
}
