//! Server requests to the user or the model of the calling client.

use super::*;

/// Real servers with the tools `ask` and `sample`: one that sends requests, over HTTP and over
/// stdio, and one that returns input-required results.
fn sidecars() -> Vec<(&'static str, Option<Peer>, Sidecar)> {
    let mut sidecars = Vec::new();
    for name in ["mcp1-http", "mcp2-http"] {
        let Some(peer) = Peer::new(name) else {
            continue;
        };
        let entry = format!("url = \"{}\"", peer.url);
        sidecars.push((name, Some(peer), with(&entry)));
    }
    if let Some((program, arguments)) = Peer::command("mcp1-stdio") {
        let entry = format!("command = \"{program}\"\nargs = {arguments:?}");
        sidecars.push(("mcp1-stdio", None, with(&entry)));
    }
    sidecars
}

fn with(entry: &str) -> Sidecar {
    Sidecar::with_config(&format!(
        "[[mcp_servers]]\nlabel = \"far\"\n{entry}\ntool_prefix = \"\"\n"
    ))
}

fn response_to(question: &Value) -> Value {
    match question["method"].text() {
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "sampling/createMessage" => json!({"role": "assistant", "model": "m",
            "content": {"type": "text", "text": "Ada"}}),
        other => panic!("{other}"),
    }
}

#[test]
fn a_client_with_a_session_gets_requests_on_the_stream_of_its_call() {
    for (name, _peer, sidecar) in &sidecars() {
        let capabilities = json!({"elicitation": {}, "sampling": {}});
        let session = Session::open(&sidecar.socket, "2025-11-25", capabilities);
        for tool in ["ask", "sample"] {
            let call = call_request(1, tool, json!({}));
            let mut stream = session.stream(&call);
            let question = stream.next().unwrap();
            let response = json!({"jsonrpc": "2.0", "id": question["id"],
                "result": response_to(&question)});
            assert_eq!(session.send(&response).status, 202, "{name} {tool}");
            let result = stream.next().unwrap();
            assert_eq!(result["id"], 1, "{name} {tool}: {result}");
            assert!(
                result["result"].to_string().contains("Ada"),
                "{name} {tool}: {result}"
            );
            assert_eq!(stream.next(), None);
        }
    }
}

#[test]
fn a_client_without_a_session_gets_an_input_required_result() {
    for (name, _peer, sidecar) in &sidecars() {
        let capabilities = json!({"elicitation": {}, "sampling": {}});
        for tool in ["ask", "sample"] {
            let ask = |more: Value| {
                let mut params = json!({"name": tool, "arguments": {}});
                for (key, value) in more.as_object().unwrap() {
                    params[key] = value.clone();
                }
                let (headers, body) = stateless("tools/call", params, capabilities.clone());
                last(&sidecar.post_with("/mcp", &headers, body.to_string()))
            };
            let pending = ask(json!({}))["result"].clone();
            assert_eq!(
                pending["resultType"], "input_required",
                "{name} {tool}: {pending}"
            );
            let (key, question) = pending["inputRequests"]
                .as_object()
                .unwrap()
                .iter()
                .next()
                .unwrap();
            let mut next = json!({"inputResponses": {key: response_to(question)}});
            if let Some(state) = pending.get("requestState") {
                next["requestState"] = state.clone();
            }
            let result = ask(next.clone())["result"].clone();
            assert_eq!(result["resultType"], "complete", "{name} {tool}: {result}");
            assert!(
                result.to_string().contains("Ada"),
                "{name} {tool}: {result}"
            );
            if name.starts_with("mcp1") {
                // The call has ended, so its request cannot be answered again.
                assert_eq!(ask(next)["error"]["code"], -32602);
            }
        }
    }
}

#[test]
fn a_waiting_input_request_is_only_for_the_same_request() {
    let Some(peer) = Peer::new("mcp1-http") else {
        return;
    };
    let sidecar = with(&format!("url = \"{}\"", peer.url));
    let ask = |params: Value, user: &str| {
        let (headers, body) = stateless("tools/call", params, json!({"elicitation": {}}));
        let headers = headers + user;
        last(&sidecar.post_with("/mcp", &headers, body.to_string()))
    };
    let pending = ask(json!({"name": "ask", "arguments": {}}), "")["result"].clone();
    let state = pending["requestState"].clone();
    let again = json!({"name": "ask", "arguments": {}, "requestState": state});
    assert_eq!(
        ask(again.clone(), "x-pillion-user: eve\r\n")["error"]["code"],
        -32602
    );
    let other = json!({"name": "echo", "arguments": {"text": "x"}, "requestState": state});
    assert_eq!(ask(other, "")["error"]["code"], -32602);
    // If the client does not answer, the request is sent once more.
    let pending = ask(again, "")["result"].clone();
    assert_eq!(pending["resultType"], "input_required");
    assert_ne!(pending["requestState"], state);
}

#[test]
fn a_client_without_capabilities_is_not_asked() {
    for (name, _peer, sidecar) in &sidecars() {
        let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
        let call = call_request(1, "ask", json!({}));
        let mut stream = session.stream(&call);
        let response = stream.next().unwrap();
        assert_eq!(response["id"], 1, "{name}: {response}");
        let is_rejected = response["result"]["isError"] == true || response["error"].is_object();
        assert!(is_rejected, "{name}: {response}");
    }
}

#[test]
fn l1_a_request_that_cannot_be_attributed_is_forwarded_to_no_client() {
    let Some((program, arguments)) = Peer::command("mcp1-stdio") else {
        return;
    };
    let sidecar = with(&format!("command = \"{program}\"\nargs = {arguments:?}"));
    let open = || Session::open(&sidecar.socket, "2025-11-25", json!({"elicitation": {}}));
    let (alice, bob) = (open(), open());
    let call = |name: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": {"progressToken": 1}}})
    };
    let mut slow = alice.stream(&call("slow", json!({"seconds": 4})));
    assert_eq!(slow.next().unwrap()["method"], "notifications/progress");
    // With one stream, the server cannot say which call its request belongs to.
    let mut asking = bob.stream(&call("ask", json!({})));
    let response = asking.next().unwrap();
    assert_json!(response["result"]["isError"], true);
    loop {
        let message = slow.next().unwrap();
        assert_ne!(message["method"], "elicitation/create");
        if message["id"] == 1 {
            break;
        }
    }
    // Bob receives the request when his call is the only one.
    let mut asking = bob.stream(&call("ask", json!({})));
    assert_eq!(asking.next().unwrap()["method"], "elicitation/create");
}

#[test]
fn l1_requests_of_a_rest_call_go_to_no_mcp_client() {
    let Some((program, arguments)) = Peer::command("mcp1-stdio") else {
        return;
    };
    let sidecar = with(&format!("command = \"{program}\"\nargs = {arguments:?}"));
    let capabilities = json!({"elicitation": {}, "sampling": {}});
    let alice = Session::open(&sidecar.socket, "2025-11-25", capabilities);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "slow", "arguments": {"seconds": 4}, "_meta": {"progressToken": 1}}});
    let mut slow = alice.stream(&call);
    assert_eq!(slow.next().unwrap()["method"], "notifications/progress");
    for tool in ["ask", "sample"] {
        let bobs = sidecar.execute(tool, &json!({}));
        assert_json!(bobs["result"]["success"], false);
    }
    loop {
        let message = slow.next().unwrap();
        if message["id"] == 1 {
            break;
        }
        assert_json!(message["method"], "notifications/progress");
    }
}
