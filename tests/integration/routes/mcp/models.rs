use super::*;

const MODELS: &str = r#"
[[models]]
id = "no-tools"
tools = { mcp = true }
[[models]]
id = "one tool"
tools = { function_calling = true, enabled_tools = ["calculator"] }
[[models]]
id = "all"
tools = { function_calling = true }
"#;

fn ask(sidecar: &Sidecar, target: &str, method: &str, params: Value) -> Value {
    let (headers, body) = stateless(method, params, json!({}));
    sidecar.post_with(target, &headers, body.to_string()).json()
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].items();
    tools.iter().map(|tool| tool["name"].text()).collect()
}

#[test]
fn h2_a_model_sees_and_calls_only_its_tools() {
    let sidecar = Sidecar::with_config(MODELS);
    let list = |target: &str| ask(&sidecar, target, "tools/list", json!({}));
    assert!(names(&list("/mcp")).len() > 2);
    assert_eq!(names(&list("/mcp?model=one%20tool")), ["calculator"]);
    assert!(names(&list("/mcp?model=no-tools")).is_empty());
    assert!(names(&list("/mcp?model=all")).contains(&"get_time"));

    let call = |model: &str, name: &str| {
        let params = json!({"name": name, "arguments": {"expression": "1"}});
        ask(
            &sidecar,
            &format!("/mcp?model={model}"),
            "tools/call",
            params,
        )
    };
    assert_eq!(call("one%20tool", "calculator")["result"]["isError"], false);
    // A hidden tool is unknown under all its names.
    for name in ["get_time", "time_tool"] {
        let rejected = call("one%20tool", name);
        let expected = format!("Unknown tool: {name}");
        assert_eq!(rejected["error"]["message"], expected);
    }
    assert_eq!(call("no-tools", "calculator")["error"]["code"], -32602);
}

#[test]
fn h2_a_model_that_is_not_configured_is_an_error() {
    let sidecar = Sidecar::with_config(MODELS);
    let response = ask(&sidecar, "/mcp?model=other", "tools/list", json!({}));
    assert_eq!(response["error"]["message"], "Unknown model: other");
}

#[test]
fn an_unknown_model_is_refused_in_json() {
    let sidecar = Sidecar::with_config(MODELS);
    let (headers, body) = stateless("tools/list", json!({}), json!({}));
    let body = body.to_string();
    for verb in ["POST", "GET", "DELETE"] {
        let target = "/mcp?model=nope";
        let reply = sidecar.send(verb, target, &headers, body.as_bytes());
        assert_eq!(reply.status, 400);
        assert_contains!(reply.head, "content-type: application/json");
        assert_eq!(reply.json()["error"]["message"], "Unknown model: nope");
    }
}
