//! Messages in which an empty object is written as a list, as PHP writes it, or as `null`.

use super::*;

#[test]
fn a_list_or_null_in_place_of_an_object_is_an_empty_object() {
    let sidecar = Sidecar::start();
    for nothing in [json!([]), json!({}), Value::Null] {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": nothing, "clientInfo": nothing,
            "_meta": nothing}});
        let reply = sidecar.post_with("/mcp", ACCEPT, hello.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = Session::open(&sidecar.socket, "2025-11-25", json!({"roots": nothing}));
        for method in ["tools/list", "resources/list", "prompts/list"] {
            let listed = session.ask(method, nothing.clone());
            assert!(listed["result"].is_object(), "{method} {nothing}: {listed}");
        }
        let arguments = json!({"name": "get_time", "arguments": nothing, "_meta": nothing});
        let called = session.ask("tools/call", arguments);
        assert_json!(called["result"]["isError"], false);
        let mut notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        notification["params"] = nothing.clone();
        assert_eq!(session.send(&notification).status, 202);

        let call = json!({"name": "get_time", "arguments": nothing});
        let (headers, mut body) = stateless("tools/call", call, json!({}));
        let meta = &mut body["params"]["_meta"];
        meta["io.modelcontextprotocol/clientInfo"] = nothing.clone();
        if !nothing.is_null() {
            // The capabilities are required.
            meta["io.modelcontextprotocol/clientCapabilities"] = nothing.clone();
        }
        let reply = sidecar.post_with("/mcp", &headers, body.to_string());
        assert_eq!(last(&reply)["result"]["isError"], false, "{reply:?}");
    }
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    for (params, name) in [
        (json!({"name": "get_time", "arguments": [1]}), "arguments"),
        (json!({"name": "get_time", "arguments": ""}), "arguments"),
    ] {
        let rejected = session.ask("tools/call", params);
        assert_json!(rejected["error"]["code"], -32602);
        assert!(rejected.to_string().contains(name), "{rejected}");
    }
}

#[test]
fn an_empty_cursor_is_the_first_page() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    for (method, list) in [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        for cursor in [json!(""), Value::Null] {
            let listed = session.ask(method, json!({"cursor": cursor}));
            assert!(listed["result"][list].is_array(), "{method}: {listed}");
            let (headers, body) = stateless(method, json!({"cursor": cursor}), json!({}));
            let reply = sidecar.post_with("/mcp", &headers, body.to_string());
            assert!(last(&reply)["result"][list].is_array(), "{method}");
        }
        let rejected = session.ask(method, json!({"cursor": "2"}));
        assert_eq!(rejected["error"]["code"], -32602, "{method}: {rejected}");
    }
}
