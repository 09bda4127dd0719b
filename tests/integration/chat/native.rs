//! MCP servers that the provider calls itself (H1), with Pillion's approvals (G3).

use pillion_testkit::LlmDialect;

use super::*;

const TOKEN: &str = "t0ken-for-the-provider";

/// Starts a sidecar with a server `dice` that the provider of the model `demo` calls itself.
fn daemon(llm: &FakeLlm, api: &str, server: &FakeMcp, policy: &str) -> Daemon {
    let text = format!(
        "[log]\nfilter = \"trace\"\n\
         [[providers]]\nname = \"{api}\"\nbase_url = \"{}\"\nmax_retries = 0\n\
         [[mcp_servers]]\nlabel = \"dice\"\nurl = \"{}\"\ndescription = \"Rolls dice\"\n\
         require_approval = \"{policy}\"\n\
         native = {{ url = \"https://dice.example/mcp\", token_env = \"DICE\" }}\n\
         [[models]]\nid = \"demo\"\nprovider = \"{api}\"\n\
         tools = {{ function_calling = true, mcp = true, native_mcp = [\"dice\"] }}\n",
        llm.base_url, server.url
    );
    Daemon::with_variables(&text, &[("DICE", TOKEN)])
}

fn native(body: &Value) -> Value {
    let tools = body["tools"].items().iter();
    let mut native = tools.filter(|tool| tool["type"] == "mcp");
    native.next().cloned().unwrap_or_default()
}

fn has_function(body: &Value, name: &str) -> bool {
    let mut tools = body["tools"].items().iter();
    tools.any(|tool| tool["name"] == name)
}

fn shown(daemon: &Daemon) -> String {
    stdout(&daemon.run(&["models", "show", "demo"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_g3_a_native_call_waits_for_an_approval_and_is_logged() {
    let approval_request = json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "dice",
        "name": "roll", "arguments": "{\"notation\": \"2d6\"}"});
    let called = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "dice", "name": "roll",
        "arguments": "{\"notation\": \"2d6\"}", "output": "15", "error": null,
        "approval_request_id": "mcpr_1"});
    let responses = [
        LlmResponse::default().with_item(approval_request),
        LlmResponse::text("You rolled 15.").with_item(called),
    ];
    let llm = FakeLlm::with_responses(LlmDialect::OpenAiResponses, responses).await;
    let server = FakeMcp::start(Dialect::StreamableJson);
    let daemon = daemon(&llm, "openai-responses", &server, "always");
    let socket = &daemon.socket;
    let response = chat(socket, "", &json!({"message": "Roll."}));
    assert_json!(response["status"], "awaiting_approval");
    let approval = &response["approvals"][0];
    assert_eq!(approval["tool"], "dice_roll");
    assert_eq!(approval["arguments"], json!({"notation": "2d6"}));
    let body = &llm.bodies()[0];
    let expected = json!({
        "type": "mcp", "server_label": "dice", "server_description": "Rolls dice",
        "server_url": "https://dice.example/mcp", "authorization": TOKEN,
        "allowed_tools": ["roll"], "require_approval": "always",
    });
    assert_eq!(native(body), expected);
    assert!(!has_function(body, "dice_roll"), "{body}");
    assert!(has_function(body, "calculator"), "{body}");

    let id = approval["id"].text();
    assert_eq!(decide(socket, id, "approve").status, 200);
    let response = chat(socket, response["id"].text(), &json!({}));
    assert_json!(response["content"], "You rolled 15.");
    assert_json!(response["tool_calls"][0]["name"], "dice_roll");
    assert_eq!(response["tool_calls"][0]["content"], "15");
    let input = llm.bodies()[1]["input"].items().clone();
    let allowed = json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1",
        "approve": true});
    assert!(input.contains(&allowed), "{input:?}");
    // Pillion sent the server only a request for its list of tools; the provider calls the tools.
    assert!(server.requests.calls("tools/call").is_empty());
    let logged = socket.recorded("").remove(0);
    assert_json!(logged["toolName"], "dice_roll");
    assert_json!(logged["status"], "success");
    assert_contains!(shown(&daemon), "yes, called by the provider");
    assert!(!daemon.log().contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_provider_without_approvals_gets_no_server_whose_tools_need_approval() {
    for (policy, is_native) in [("never", true), ("always", false)] {
        let responses = [LlmResponse::text("Hello.")];
        let llm = FakeLlm::with_responses(LlmDialect::Anthropic, responses).await;
        let server = FakeMcp::start(Dialect::StreamableJson);
        let daemon = daemon(&llm, "anthropic", &server, policy);
        chat(&daemon.socket, "", &json!({"message": "Hi"}));
        let body = &llm.bodies()[0];
        assert_eq!(body.get("mcp_servers").is_some(), is_native, "{body}");
        assert_eq!(has_function(body, "dice_roll"), !is_native, "{body}");
        let shown = shown(&daemon);
        assert_eq!(
            shown.contains("called by the provider"),
            is_native,
            "{shown}"
        );
    }
}
