//! Calls over `/mcp` that need approval, which the client's user gives by elicitation.

use super::*;
use crate::http::send_with_token;
use crate::routes::mcp::last;

fn call(expression: &str) -> Value {
    json!({"name": "calculator", "arguments": {"expression": expression}})
}

fn with_id(params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

fn status(daemon: &Daemon, id: &str) -> Value {
    daemon.get(&format!("/api/v1/approvals/{id}")).json()["approval"].clone()
}

fn newest(daemon: &Daemon) -> String {
    let listed = daemon.get("/api/v1/approvals?limit=1").json();
    let id = listed["approvals"][0]["id"].as_str();
    id.unwrap_or_default().to_owned()
}

#[test]
fn g3_a_client_without_elicitation_receives_the_approval_id() {
    let daemon = Daemon::with_config(ALWAYS);
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let result = session.ask("tools/call", call("6 * 7"))["result"].clone();
    assert_eq!(result["isError"], true);
    let expected = "approval_required";
    assert_eq!(result["structuredContent"]["error"]["code"], expected);
    let id = result["_meta"]["pillion/approval_id"].text();
    assert!(result["content"][0]["text"].text().contains(id));
    decide(&daemon.socket, id, "approve");
    let result = session.ask("tools/call", call("6 * 7"))["result"].clone();
    assert_json!(result["content"][0]["text"], "42");
    // A client with only URL elicitation receives no forms.
    let session = Session::open(
        &daemon.socket,
        "2025-11-25",
        json!({"elicitation": {"url": {}}}),
    );
    let result = session.ask("tools/call", call("1"))["result"].clone();
    assert_json!(result["isError"], true);
}

#[test]
fn g3_a_client_with_a_session_is_asked_during_the_call() {
    let daemon = Daemon::with_config(ALWAYS);
    let session = Session::open(&daemon.socket, "2025-11-25", json!({"elicitation": {}}));
    let responses = [
        (
            json!({"action": "accept", "content": {"decision": "approve"}}),
            "7",
            "used",
        ),
        (
            json!({"action": "accept", "content": {"decision": "deny"}}),
            "was denied",
            "denied",
        ),
        (json!({"action": "decline"}), "was denied", "denied"),
        (json!({"action": "cancel"}), "needs approval", "pending"),
    ];
    for (index, (response, text, becomes)) in responses.into_iter().enumerate() {
        let params = call(&format!("7 + {index} - {index}"));
        let mut stream = session.stream(&with_id(&params));
        let question = stream.next().unwrap();
        assert_json!(question["method"], "elicitation/create");
        assert_contains!(question["params"]["message"].text(), "'calculator'", "7 + ");
        let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": response});
        assert_eq!(session.send(&response).status, 202);
        let result = stream.next().unwrap()["result"].clone();
        assert_contains!(result["content"][0]["text"].text(), text);
        let approval = status(&daemon, &newest(&daemon));
        assert_json!(approval["status"], becomes);
        if becomes != "pending" {
            let uid = format!("uid:{}", nix::unistd::getuid());
            assert_eq!(approval["decided_by"], json!(uid));
        }
    }
}

#[test]
fn g3_a_client_without_a_session_is_asked_with_an_input_required_result() {
    let daemon = Daemon::with_config(ALWAYS);
    let ask = |params: Value| {
        let (headers, body) = stateless("tools/call", params, json!({"elicitation": {"form": {}}}));
        last(&daemon.post_with("/mcp", &headers, body.to_string()))
    };
    let question = ask(call("6 * 7"))["result"].clone();
    assert_json!(question["resultType"], "input_required");
    let mut next = call("6 * 7");
    next["requestState"] = question["requestState"].clone();
    let requests = question["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    next["inputResponses"] = json!({key: {"action": "accept", "content": {"decision": "approve"}}});
    let result = ask(next)["result"].clone();
    assert_json!(result["content"][0]["text"], "42");
    assert_eq!(status(&daemon, &newest(&daemon))["status"], "used");
}

#[test]
fn g3_a_client_is_asked_for_a_step_of_a_composed_tool() {
    let daemon = Daemon::with_config(
        "[tools.calculator]\nrequire_approval = \"always\"\n\
         [[composed_tools]]\nname = \"answer\"\ndescription = \"A test\"\n\
         steps = [{ name = \"a\", tool = \"calculator\", arguments = { expression = \"6 * 7\" } }]\n",
    );
    let session = Session::open(&daemon.socket, "2025-11-25", json!({"elicitation": {}}));
    let mut stream = session.stream(&with_id(&json!({"name": "answer", "arguments": {}})));
    let question = stream.next().unwrap();
    assert_json!(question["method"], "elicitation/create");
    let approve = json!({"action": "accept", "content": {"decision": "approve"}});
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": approve});
    assert_eq!(session.send(&response).status, 202);
    let result = stream.next().unwrap()["result"].clone();
    assert_json!(result["content"][0]["text"], "42");
}

#[test]
fn g3_the_first_decision_counts() {
    let daemon = Daemon::with_config(ALWAYS);
    let session = Session::open(&daemon.socket, "2025-11-25", json!({"elicitation": {}}));
    let mut stream = session.stream(&with_id(&call("6 * 7")));
    let question = stream.next().unwrap();
    // A decision arrives before the user of the client answers.
    assert_eq!(decide(&daemon.socket, &newest(&daemon), "deny").status, 200);
    let result = stream.next().unwrap()["result"].clone();
    assert_eq!(result["structuredContent"]["error"]["code"], "denied");
    let response = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"decision": "approve"}}});
    assert_eq!(session.send(&response).status, 202);
    assert_eq!(status(&daemon, &newest(&daemon))["status"], "denied");
}

#[test]
fn l3_a_token_without_the_approve_scope_cannot_approve_and_is_not_asked() {
    let (runner, boss) = ("runner-runner-runner-1", "boss-boss-boss-boss-1");
    let tokens = format!("ci execute {runner}; boss approve {boss}");
    let (daemon, address) = Daemon::with_tokens(&tokens, ALWAYS);
    let send = |token: &str, line: &str, headers: &str, body: &str| {
        send_with_token(address, token, line, headers, body)
    };
    let execute = "POST /api/v1/tools/execute/calculator";
    let called = send(runner, execute, "", r#"{"expression": "6 * 7"}"#);
    let id = approval_id(&called.json()["result"]);
    let approve = format!("POST /api/v1/approvals/{id}/approve");
    assert_eq!(send(runner, &approve, "", "").status, 403);
    let (headers, request) = stateless("tools/call", call("1"), json!({"elicitation": {}}));
    let ask = |token: &str| send(token, "POST /mcp", &headers, &request.to_string()).text();
    assert_contains!(ask(runner), "approval_required");
    assert_contains!(ask(boss), "input_required");
    let approved = send(boss, &approve, "", "");
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_contains!(approved.text(), "\"decided_by\":\"token:boss\"");
    let result = calculate(&daemon.socket, "mallory", "6 * 7", "");
    approval_id(&result);
}

#[test]
fn g3_a_client_over_standard_streams_is_asked() {
    let mut child = pillion(&["mcp-stdio"])
        .env("PILLION__APPROVALS__POLICY", "always-ask")
        .env("PILLION__STORE__LOCATION", "memory")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut say = |message: &Value| writeln!(input, "{message}").unwrap();
    let mut hear = || -> Value {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    say(&hello("2025-11-25", json!({"elicitation": {}})));
    assert_eq!(hear()["id"], 0);
    say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for (decision, text) in [("approve", "42"), ("deny", "was denied")] {
        say(&with_id(&call("6 * 7")));
        let question = hear();
        assert_json!(question["method"], "elicitation/create");
        say(&json!({"jsonrpc": "2.0", "id": question["id"],
            "result": {"action": "accept", "content": {"decision": decision}}}));
        let result = hear()["result"].clone();
        assert_contains!(result["content"][0]["text"].text(), text);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}
