//! Approvers who change the arguments of a call.

use super::*;

fn approve(daemon: &Daemon, id: &str, body: &Value) -> Reply {
    let path = format!("/api/v1/approvals/{id}/approve");
    daemon.post(&path, body.to_string())
}

#[test]
fn g3_a_repeated_call_runs_with_the_arguments_of_the_approver() {
    let mut daemon = Daemon::with_config(ALWAYS);
    let id = request_approval(&daemon.socket, "alice", "6 * 8");
    let edited = json!({"expression": "6 * 7"});
    let decided = approve(
        &daemon,
        &id,
        &json!({"reason": "too much", "arguments": edited}),
    );
    assert_eq!(decided.status, 200, "{decided:?}");
    let approval = decided.json()["approval"].clone();
    assert_eq!(approval["arguments"], json!({"expression": "6 * 8"}));
    assert_eq!(approval["approved_arguments"], edited);
    assert_eq!(approval["reason"], "too much");
    let daemon = daemon.restart();
    assert_eq!(show(&daemon.socket, &id)["approved_arguments"], edited);
    // Edited arguments apply only to the call and the user of the approval.
    request_approval(&daemon.socket, "bob", "6 * 8");
    request_approval(&daemon.socket, "alice", "6 * 7");
    let result = calculate(&daemon.socket, "alice", "6 * 8", "");
    assert_json!(result["data"]["result"], 42);
    assert_eq!(result["metadata"]["approved_arguments"], edited);
    let text = result["text"].text();
    assert_starts_with!(text, "42\n\nNote: the person who approved");
    assert_ends_with!(text, r#"The call ran with: {"expression":"6 * 7"}"#);
    let call = daemon.record(&result["metadata"]["record_id"]);
    assert_eq!(call["arguments"], json!({"expression": "6 * 8"}));
    assert_eq!(call["approvedArguments"], edited);
    assert_eq!(call["status"], "success");
    assert_eq!(show(&daemon.socket, &id)["status"], "used");
    assert_ne!(request_approval(&daemon.socket, "alice", "6 * 8"), id);
}

#[test]
fn g3_a_waiting_call_runs_with_the_arguments_of_the_approver() {
    let daemon = Daemon::with_config(ALWAYS);
    let (id, result) = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| calculate(&daemon.socket, "alice", "6 * 8", "?wait_ms=20000"));
        let id = wait_for_approval(&daemon.socket);
        let edited = json!({"arguments": {"expression": "6 * 7"}});
        assert_eq!(approve(&daemon, &id, &edited).status, 200);
        (id, waiting.join().unwrap())
    });
    assert_json!(result["data"]["result"], 42);
    assert_eq!(show(&daemon.socket, &id)["status"], "used");
}

#[test]
fn g3_changed_arguments_are_checked_and_secrets_stay_the_callers_own() {
    let server = crate::mcp_server::McpServer::start(json!([{
        "name": "echo",
        "inputSchema": {
            "type": "object",
            "properties": {"to": {"type": "string", "maxLength": 5}, "password": {"type": "string"}},
        },
    }]));
    let config = detected_entry("far", &server.url, "require_approval = \"always\"");
    let daemon = Daemon::with_config(&config);
    let call = |arguments: &Value| {
        let target = "/api/v1/tools/execute/far_echo";
        daemon.post(target, arguments.to_string()).json()["result"].clone()
    };
    let own = json!({"to": "bob", "password": "hunter2"});
    let id = approval_id(&call(&own));
    let redacted = "[redacted: string, 7 characters]";
    let wrong = |arguments: Value, expected: &str| {
        let rejected = approve(&daemon, &id, &json!({"arguments": arguments}));
        assert_eq!(rejected.status, 400, "{rejected:?}");
        assert_contains!(rejected.json().to_string(), expected);
    };
    wrong(
        json!({"to": "carol", "password": "x"}),
        "'/password' is redacted",
    );
    wrong(json!({"to": "too long"}), "to");
    wrong(json!({"to": 7}), "to");
    wrong(json!(["a"]), "arguments: invalid type: sequence");
    wrong(json!("a"), "arguments: invalid type: string");
    let deny = format!("/api/v1/approvals/{id}/deny");
    let rejected = daemon.post(&deny, r#"{"arguments": {}}"#);
    assert_eq!(rejected.status, 400);
    assert_eq!(show(&daemon.socket, &id)["status"], "pending");
    // An invalid value beside a redacted one is only found when the call runs.
    let edited = json!({"arguments": {"to": "carol", "password": redacted}});
    assert_eq!(approve(&daemon, &id, &edited).status, 200);
    assert_lacks!(show(&daemon.socket, &id).to_string(), "hunter2");
    let result = call(&own);
    assert_json!(result["success"], true);
    let sent = json!({"to": "carol", "password": "hunter2"});
    assert_eq!(result["metadata"]["approved_arguments"], sent);
    let recorded = daemon.record(&result["metadata"]["record_id"]);
    let expected = json!({"to": "carol", "password": "[redacted]"});
    assert_eq!(recorded["approvedArguments"], expected);
}

#[test]
fn g3_an_edited_call_and_the_original_share_no_cached_or_stored_result() {
    let config = format!("{ALWAYS}[tools.calculator]\ncache_ttl_ms = 60000\n");
    let daemon = Daemon::with_config(&config);
    let edit = |expression: &str, edited: &str| {
        let id = request_approval(&daemon.socket, "alice", expression);
        let body = json!({"arguments": {"expression": edited}});
        assert_eq!(approve(&daemon, &id, &body).status, 200);
        calculate(&daemon.socket, "alice", expression, "")["data"]["result"].clone()
    };
    assert_eq!(edit("6 * 8", "6 * 7"), 42);
    assert_eq!(edit("6 * 8", "6 * 9"), 54);
    // The cached result of an edited call counts as a result of the edited arguments.
    assert_eq!(edit("6 * 8", "6 * 7"), 42);
    let id = request_approval(&daemon.socket, "alice", "6 * 8");
    decide(&daemon.socket, &id, "approve");
    let result = calculate(&daemon.socket, "alice", "6 * 8", "");
    assert_json!(result["data"]["result"], 48);
    assert_eq!(result["metadata"].get("approved_arguments"), None);
    // With an idempotency key, a repeated request gets the response of the edited call.
    let keyed = || {
        let headers = "x-pillion-user: alice\r\nidempotency-key: once\r\n";
        let body = json!({"expression": "1 + 1"}).to_string();
        let target = "/api/v1/tools/execute/calculator";
        let reply = daemon.post_with(target, headers, body.as_bytes());
        reply.json()["result"].clone()
    };
    let id = approval_id(&keyed());
    approve(&daemon, &id, &json!({"arguments": {"expression": "1 + 2"}}));
    for _ in 0..2 {
        let result = keyed();
        assert_json!(result["data"]["result"], 3);
        let expected = json!({"expression": "1 + 2"});
        assert_eq!(result["metadata"]["approved_arguments"], expected);
    }
}

#[test]
fn g3_mcp_clients_receive_the_arguments_of_the_approver() {
    let server = crate::mcp_server::McpServer::echo();
    let config = detected_entry("far", &server.url, ALWAYS);
    let daemon = Daemon::with_config(&config);
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let calls = [
        (
            "calculator",
            json!({"expression": "6 * 8"}),
            json!({"expression": "6 * 7"}),
        ),
        ("echo", json!({"n": 1}), json!({"n": 2})),
    ];
    for (tool, own, edited) in calls {
        let params = json!({"name": tool, "arguments": own});
        let waiting = session.ask("tools/call", params.clone())["result"].clone();
        let id = waiting["_meta"]["pillion/approval_id"].text().to_owned();
        assert_eq!(
            approve(&daemon, &id, &json!({"arguments": edited})).status,
            200
        );
        let result = session.ask("tools/call", params)["result"].clone();
        assert_ne!(result["isError"], true, "{result}");
        assert_json!(result["_meta"]["pillion/approved_arguments"], edited);
        let texts = result["content"].items().iter();
        let text: String = texts.filter_map(|block| block["text"].as_str()).collect();
        assert_contains!(
            text,
            "Note: the person who approved this call",
            &edited.to_string()
        );
    }
}

#[test]
fn g3_the_command_line_changes_arguments() {
    let daemon = Daemon::with_config(ALWAYS);
    let command = |arguments: &[&str]| daemon.run(&[&["approvals", "approve"], arguments].concat());
    let id = request_approval(&daemon.socket, "alice", "6 * 8");
    let rejected = command(&[&id, "--arguments", "[1]"]);
    assert_contains!(stderr(&rejected), "not a JSON object");
    let rejected = command(&[&id, "--arguments", r#"{"expression": 7}"#]);
    assert!(!rejected.status.success());
    assert_contains!(stderr(&rejected), "expression");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"expression": "6 * 7"}"#).unwrap();
    let file_option = format!("@{}", file.path().display());
    let approved = command(&[&id, "--arguments", &file_option]);
    assert_contains!(stdout(&approved), "approved by");
    let result = calculate(&daemon.socket, "alice", "6 * 8", "");
    assert_json!(result["data"]["result"], 42);
}
