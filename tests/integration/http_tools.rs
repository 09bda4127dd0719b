//! HTTP endpoints and OpenAPI operations as tools, with the API and the OpenAPI document of another
//! sidecar.

use std::net::SocketAddr;

use crate::prelude::*;

const TOKEN: &str = "operator-operator-operator-1";

/// A sidecar whose REST API over TCP the tools call.
struct Api {
    daemon: Daemon,
    address: SocketAddr,
}

impl Api {
    fn start() -> Self {
        let (daemon, address) = Daemon::with_tokens(&format!("other execute {TOKEN}"), "");
        Self { daemon, address }
    }

    /// Returns the path of a file with the sidecar's OpenAPI document.
    fn document(&self) -> String {
        let document = self.daemon.get("/openapi.json");
        let path = self.daemon.directory().join("openapi.json");
        std::fs::write(&path, document.body).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn execute(daemon: &Daemon, tool: &str, arguments: &Value) -> Value {
    let target = format!("/api/v1/tools/execute/{tool}");
    daemon.post(&target, arguments.to_string()).expect(200)["result"].clone()
}

#[test]
fn operations_of_pillions_openapi_document_call_a_real_sidecar() {
    let api = Api::start();
    let toml = format!(
        "[[openapi]]\nname = \"far\"\ndocument = \"{}\"\nbase_url = \"http://{}\"\noperations = [\"*\"]\n\
         authentication = {{ type = \"bearer\", token_env = \"FAR_TOKEN\" }}\n",
        api.document(),
        api.address
    );
    let daemon = Daemon::with_variables(&toml, &[("FAR_TOKEN", TOKEN)]);
    let listed = ask(&daemon.socket, "tools/list", json!({}))["result"]["tools"].clone();
    let is_read_only = |name: &str| {
        let found = listed.items().iter().find(|tool| tool["name"] == name);
        let tool = found.unwrap_or_else(|| panic!("no {name} in {listed}"));
        tool["annotations"]["readOnlyHint"].clone()
    };
    assert_eq!(is_read_only("far_tools_execute"), false);
    assert_eq!(is_read_only("far_tool_calls_list"), true);

    let arguments = json!({"tool_name": "calculator", "body": {"expression": "6 * 7"}, "x-pillion-user": "alice"});
    let result = execute(&daemon, "far_tools_execute", &arguments);
    assert_json!(result["data"]["result"]["text"], "42");
    // The call is in the other sidecar's call log, with the given user.
    let query = json!({"user": "alice", "tool": "calculator", "limit": 5});
    let result = execute(&daemon, "far_tool_calls_list", &query);
    let call = &result["data"]["calls"][0];
    assert_eq!(call["arguments"]["expression"], "6 * 7", "{result}");
    let shown = execute(&daemon, "far_tool_calls_show", &json!({"id": call["id"]}));
    assert_json!(shown["data"]["call"]["id"], call["id"]);
    // An argument changes only its placeholder in the path.
    let lost = execute(
        &daemon,
        "far_tool_calls_show",
        &json!({"id": "metrics?x=/y#z"}),
    );
    assert_json!(lost["error_code"], "not_found");
    for up in ["..", "../../../../metrics?x="] {
        let up = execute(&daemon, "far_tool_calls_show", &json!({"id": up}));
        assert_json!(up["error_code"], "invalid_input");
    }
    // The other sidecar rejects what the token does not allow.
    let denied = execute(
        &daemon,
        "far_servers_add",
        &json!({"body": {"name": "x", "url": "http://127.0.0.1:1/"}}),
    );
    assert_json!(denied["error_code"], "denied");
    assert_eq!(denied["metadata"]["http_status"], 403);
    assert_lacks!(daemon.log(), TOKEN);
}

#[test]
fn a_declared_endpoint_is_a_tool_in_every_interface() {
    let api = Api::start();
    let declared = |rest: &str| {
        format!(
            "[[http_tools]]\nname = \"far_sum\"\ndescription = \"Adds two numbers, elsewhere\"\nmethod = \"POST\"\n\
             url = \"http://{}/api/v1/tools/execute/calculator\"\n\
             body = {{ expression = {{ \"$text\" = [{{ \"$from\" = \"/input/a\" }}, \"+\", {{ \"$from\" = \"/input/b\" }}] }} }}\n\
             input_schema = {{ properties = {{ a = {{ type = \"number\" }}, b = {{ type = \"number\" }} }}, required = [\"a\", \"b\"] }}\n\
             authentication = {{ type = \"bearer\", token_env = \"FAR_TOKEN\" }}\n{rest}\n",
            api.address
        )
    };
    let daemon = Daemon::with_variables(
        &declared("result_at = \"/result/data/result\""),
        &[("FAR_TOKEN", TOKEN)],
    );
    let sum = json!({"a": 19, "b": 23});
    assert_eq!(execute(&daemon, "far_sum", &sum)["data"], 42);
    let response = ask(
        &daemon.socket,
        "tools/call",
        json!({"name": "far_sum", "arguments": sum}),
    );
    assert_json!(response["result"]["structuredContent"]["data"], 42);
    let bad = execute(&daemon, "far_sum", &json!({"a": "x", "b": 1}));
    assert_eq!(bad["error_code"], "invalid_input");

    reload(&daemon, &declared("result_at = \"/result/text\""));
    assert_eq!(execute(&daemon, "far_sum", &sum)["data"], "42");
    reload(&daemon, &declared("timeout_ms = 0"));
    let ready = daemon.get("/readyz").json();
    let expected = "http_tools[0].timeout_ms: ";
    assert_contains!(ready["last_reload"]["error"].text(), expected);
    reload(&daemon, "# No settings.\n");
    let gone = daemon.post("/api/v1/tools/execute/far_sum", sum.to_string());
    assert_eq!(gone.json()["error_code"], "not_found");
}
