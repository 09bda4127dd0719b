use super::*;

fn roll(daemon: &Daemon, tool: &str) -> Value {
    daemon.execute(tool, &json!({}))["result"].clone()
}

#[test]
fn g1_trusted_tools_run_and_others_need_approval() {
    let config = "[approvals]\npolicy = \"trusted-only\"\ntrusted_tools = [\"get_time\"]\n";
    let daemon = Daemon::with_config(config);
    assert_eq!(roll(&daemon, "get_time")["success"], true);
    request_approval(&daemon.socket, "alice", "1");
    // By default, no tool needs approval.
    let daemon = Daemon::start();
    assert_eq!(calculate(&daemon.socket, "alice", "1", "")["success"], true);
}

#[test]
fn g2_settings_of_servers_and_tools_override_the_policy() {
    let server = McpServer::start(json!([
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "wipe", "inputSchema": {"type": "object"}},
    ]));
    let entry = |label: &str, approval: &str| {
        detected_entry(
            label,
            &server.url,
            &format!("require_approval = \"{approval}\""),
        )
    };
    let config = format!(
        "{}[tools.calculator]\nrequire_approval = \"always\"\n[tools.free_wipe]\nrequire_approval = \"always\"\n[tools.strict_echo]\nrequire_approval = \"never\"\n{}{}",
        "",
        entry("free", "never"),
        entry("strict", "prompt")
    );
    let daemon = Daemon::with_config(&config);
    request_approval(&daemon.socket, "alice", "1");
    assert_eq!(roll(&daemon, "get_time")["success"], true);
    assert_eq!(roll(&daemon, "free_echo")["success"], true);
    // The operator's policy for a tool overrides the policy of the server.
    approval_id(&roll(&daemon, "free_wipe"));
    let id = approval_id(&roll(&daemon, "strict_wipe"));
    assert_eq!(roll(&daemon, "strict_echo")["success"], true);
    let shown = daemon.get(&format!("/api/v1/approvals/{id}")).json();
    assert_eq!(shown["approval"]["server"], "strict");
    assert_eq!(decide(&daemon.socket, &id, "approve").status, 200);
    // An approval for a tool of one server does not apply to a tool of another server.
    approval_id(&roll(&daemon, "free_wipe"));
    assert_eq!(roll(&daemon, "strict_wipe")["success"], true);
}

#[test]
fn c1_each_call_of_a_batch_needs_its_own_approval() {
    let config = "[tools.calculator]\nrequire_approval = \"always\"\n";
    let daemon = Daemon::with_config(config);
    let calls = json!({"calls": [
        {"id": "a", "name": "calculator", "arguments": {"expression": "1"}},
        {"id": "b", "name": "get_time", "arguments": {}},
        {"id": "c", "name": "calculator", "arguments": {"expression": "2"}},
    ]});
    let send = || {
        let reply = daemon.post("/api/v1/tools/batch-execute", calls.to_string());
        let response = reply.json();
        let results = response["results"].items().iter();
        results
            .map(|result| result["result"].clone())
            .collect::<Vec<_>>()
    };
    let results = send();
    assert_eq!(results[1]["success"], true, "{results:?}");
    let (first, third) = (approval_id(&results[0]), approval_id(&results[2]));
    assert_ne!(first, third);
    decide(&daemon.socket, &first, "approve");
    decide(&daemon.socket, &third, "deny");
    let results = send();
    assert_eq!(results[0]["text"], "1");
    assert_eq!(results[2]["error_code"], "denied");
}
