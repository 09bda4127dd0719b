//! Who owns the names of tools: no server offers a tool under a name that belongs to another server
//! or to a tool of the sidecar, whichever servers are reachable.

use pillion_client::wire::{ExecuteResponse, ToolList, route};

use crate::prelude::*;

const SETTINGS: &str =
    "[mcp]\ndiscovery_timeout_ms = 1000\nretry_after_ms = 1\nrefresh_after_ms = 1\n";

fn server(tools: &[&str]) -> McpServer {
    McpServer::start(tools_of(tools))
}

fn tools_of(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    names.iter().map(tool).collect()
}

fn entry(label: &str, server: &McpServer, more: &str) -> String {
    server_entry(label, &server.url, more)
}

/// Returns the tools of servers as pairs of name and label.
fn names_and_labels(list: ToolList) -> Vec<(String, String)> {
    let tools = list.tools.into_iter();
    tools
        .filter_map(|tool| Some((tool.name, tool.server_label?)))
        .collect()
}

fn owner(client: &Client, name: &str) -> Option<String> {
    let mut tools = names_and_labels(client.fetch(route::LIST_TOOLS).unwrap()).into_iter();
    tools.find(|(tool, _)| tool == name).map(|(_, label)| label)
}

fn names_at_mcp(sidecar: &Sidecar) -> Vec<String> {
    let result = ask(&sidecar.socket, "tools/list", json!({}))["result"].clone();
    let tools = result["tools"].items().iter();
    tools.map(|tool| tool["name"].text().to_owned()).collect()
}

fn call_at_mcp(sidecar: &Sidecar, name: &str) -> Value {
    let params = json!({"name": name, "arguments": {}});
    ask(&sidecar.socket, "tools/call", params)
}

#[test]
fn a_name_belongs_to_the_server_with_the_longest_prefix_whoever_is_up() {
    let owned = "require_approval = \"always\"";
    for is_first in [true, false] {
        for mood in [Mood::Well, Mood::Ill] {
            let other = server(&["admin_refund", "add"]);
            let honest = server(&["refund"]);
            honest.set_mood(mood);
            let mut entries = [
                entry("shop", &other, ""),
                entry("shop_admin", &honest, owned),
            ];
            if is_first {
                entries.reverse();
            }
            let sidecar = Sidecar::with_config(&(SETTINGS.to_owned() + &entries.concat()));
            let client = sidecar.client();
            let refund = || owner(&client, "shop_admin_refund");
            let expected = (mood == Mood::Well).then(|| "shop_admin".to_owned());
            assert_eq!(refund(), expected);
            assert_eq!(owner(&client, "shop_add").as_deref(), Some("shop"));
            // A call of the reserved name does not reach the other server, and the error names the
            // owner.
            let called = client.execute("shop_admin_refund", &json!({}), &Caller::default());
            match called.unwrap() {
                ExecuteResponse::Executed(it) => assert!(!it.result.success && mood == Mood::Well),
                ExecuteResponse::NotFound(failure) => {
                    assert_eq!(failure.error_code, "unavailable");
                    assert_contains!(failure.error, "'shop_admin'");
                }
            }
            assert_eq!(other.count("tools/call"), 0);
            // The owner lists no tool once, fails, and returns.
            honest.set_mood(Mood::Well);
            honest.set_tools(json!([]));
            eventually("the owner lists nothing", || refund().is_none());
            let lists = other.count("tools/list");
            eventually("the other server lists its tools again", || {
                assert_eq!(refund(), None);
                other.count("tools/list") > lists
            });
            honest.set_mood(Mood::Ill);
            assert_eq!(refund(), None);
            honest.set_tools(tools_of(&["refund"]));
            honest.set_mood(Mood::Well);
            eventually("the owner is back", || {
                refund().as_deref() == Some("shop_admin")
            });
        }
    }
}

#[test]
fn a_server_added_at_run_time_takes_the_names_with_its_prefix() {
    let other = server(&["admin_refund"]);
    let honest = server(&["refund"]);
    let daemon = Daemon::with_config(SETTINGS);
    let client = daemon.client();
    let send = |method: &str, path: &str, body: &Value| {
        let path = format!("/api/v1/servers{path}");
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let reply = daemon.send(method, &path, "", body.as_bytes());
        assert!(reply.status < 300, "{}", reply.json());
    };
    let add = |name: &str, server: &McpServer| {
        send("POST", "", &json!({"name": name, "url": server.url}));
    };
    let refund = || owner(&client, "shop_admin_refund");
    add("shop", &other);
    assert_eq!(refund().as_deref(), Some("shop"));
    honest.set_mood(Mood::Ill);
    add("shop_admin", &honest);
    assert_eq!(refund(), None);
    send("POST", "/shop/reconnect", &Value::Null);
    assert_eq!(refund(), None);
    honest.set_mood(Mood::Well);
    eventually("the owner has its name", || {
        refund().as_deref() == Some("shop_admin")
    });
    send("POST", "/shop_admin/disconnect", &Value::Null);
    send("POST", "/shop/reconnect", &Value::Null);
    assert_ne!(refund().as_deref(), Some("shop"));
    // A disabled server keeps its names, a removed one does not.
    send("PATCH", "/shop_admin", &json!({"enabled": false}));
    send("POST", "/shop/reconnect", &Value::Null);
    assert_eq!(refund(), None);
    let log = daemon.log();
    let expected = "the name shop_admin_refund belongs to MCP server `shop_admin`";
    assert_contains!(log, expected);
    send("DELETE", "/shop_admin", &Value::Null);
    eventually("the name is free", || refund().as_deref() == Some("shop"));
}

#[test]
fn names_and_aliases_of_the_sidecars_tools_belong_to_them() {
    let taking = server(&["tool", "time", "weather", "web_search", "fine"]);
    let labels = ["time", "search", "get", "weather"];
    let prefixed = labels.map(|label| entry(label, &taking, "")).concat();
    let toml = prefixed + &entry("any", &taking, "tool_prefix = \"\"");
    let sidecar = Sidecar::with_config(&(SETTINGS.to_owned() + &toml));
    let list = names_and_labels(sidecar.client().fetch(route::LIST_TOOLS).unwrap());
    let names: Vec<_> = list.iter().map(|(name, _)| name.as_str()).collect();
    let at_mcp = names_at_mcp(&sidecar);
    let native = ["time_tool", "search_tool", "weather_tool", "get_time"];
    for name in native
        .iter()
        .chain(&["get_weather", "weather", "web_search"])
    {
        assert!(!names.contains(name), "{name}: {names:?}");
        assert!(
            *name == "get_time" || !at_mcp.contains(&(*name).to_owned()),
            "{name}"
        );
        let path = format!("/api/v1/tools/execute/{name}");
        sidecar.post(&path, "{}");
        call_at_mcp(&sidecar, name);
    }
    for name in ["time_fine", "get_tool", "fine"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(taking.count("tools/call"), 0);
}

#[test]
fn servers_with_one_prefix_keep_an_order() {
    for prefix in ["x_", ""] {
        let (one, two) = (server(&["a"]), server(&["a", "b"]));
        one.set_mood(Mood::Ill);
        let more = format!("tool_prefix = \"{prefix}\"");
        let toml = SETTINGS.to_owned() + &entry("one", &one, &more) + &entry("two", &two, &more);
        let sidecar = Sidecar::with_config(&toml);
        let client = sidecar.client();
        let name = |tool: &str| format!("{prefix}{tool}");
        assert_eq!(owner(&client, &name("b")).as_deref(), Some("two"));
        one.set_mood(Mood::Well);
        eventually("the first server takes the name", || {
            owner(&client, &name("a")).as_deref() == Some("one")
        });
        let lists = two.count("tools/list");
        eventually("the second server lists its tools again", || {
            assert_eq!(owner(&client, &name("b")).as_deref(), Some("two"));
            two.count("tools/list") > lists + 1
        });
        assert_eq!(owner(&client, &name("a")).as_deref(), Some("one"));
    }
    // Servers whose labels lead to the same default prefix do not share the names.
    let (one, two) = (server(&["a"]), server(&["a", "b"]));
    one.set_mood(Mood::Ill);
    let toml = SETTINGS.to_owned() + &entry("a-b c", &one, "") + &entry("a-b_c", &two, "");
    let sidecar = Sidecar::with_config(&toml);
    assert_eq!(owner(&sidecar.client(), "a-b_c_a"), None);
}

#[test]
fn mcp_clients_never_see_a_name_of_another_server() {
    for order in [true, false] {
        let a = server(&["send"]);
        a.set_mood(Mood::Ill);
        let b = server(&["a_send", "send", "b_only"]);
        let mut entries = [
            entry("a", &a, "require_approval = \"always\""),
            entry("b", &b, ""),
        ];
        if order {
            entries.reverse();
        }
        let sidecar = Sidecar::with_config(&(SETTINGS.to_owned() + &entries.concat()));
        let calls_none = || {
            for name in ["a_send", "send"] {
                let response = call_at_mcp(&sidecar, name);
                assert_ne!(response["result"]["isError"], false, "{name}: {response}");
            }
            assert_eq!(b.count("tools/call"), 0);
        };
        // The name is reserved also before any list was requested.
        calls_none();
        let unavailable = call_at_mcp(&sidecar, "send")["result"].clone();
        let code = &unavailable["_meta"]["pillion/error_code"];
        assert_eq!(code, "unavailable", "{unavailable}");
        let of_b = || {
            let names = names_at_mcp(&sidecar).into_iter();
            names
                .filter(|name| name.ends_with("send"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of_b(), ["b_a_send", "b_send"]);
        a.set_mood(Mood::Well);
        let mut all = ["a_send", "b_a_send", "b_send"].map(str::to_owned).to_vec();
        if order {
            all.rotate_left(1);
        }
        eventually("the owner is back", || of_b() == all);
        calls_none();
        a.set_tools(json!([]));
        eventually("the owner lists nothing", || {
            of_b() == ["b_a_send", "b_send"]
        });
        calls_none();
        assert!(names_at_mcp(&sidecar).contains(&"b_only".to_owned()));
        let called = call_at_mcp(&sidecar, "b_a_send");
        assert_json!(called["result"]["isError"], Value::Null);
        assert_eq!(b.count("tools/call"), 1);
    }
}

#[test]
fn the_pins_of_a_server_tell_its_names_while_it_is_unreachable() {
    let (a, b) = (server(&["send"]), server(&["send", "receive"]));
    let toml = SETTINGS.to_owned() + &entry("a", &a, "") + &entry("b", &b, "");
    let mut daemon = Daemon::with_config(&toml);
    let names = |daemon: &Daemon| {
        let result = ask(&daemon.socket, "tools/list", json!({}))["result"].clone();
        let tools = result["tools"].items().iter();
        let names = tools.map(|tool| tool["name"].text().to_owned());
        names
            .filter(|name| name.ends_with("send") || name.ends_with("receive"))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&daemon), ["a_send", "b_send", "receive"]);
    a.set_mood(Mood::Ill);
    let daemon = daemon.restart();
    assert_eq!(names(&daemon), ["b_send", "receive"]);
    // The name stays reserved also after the server has listed fewer tools.
    a.set_tools(json!([]));
    a.set_mood(Mood::Well);
    let reply = daemon.post("/api/v1/servers/a/reconnect", "");
    assert_eq!(reply.status, 200);
    assert_eq!(names(&daemon), ["b_send", "receive"]);
    a.set_mood(Mood::Ill);
    // No client knows the names of a server that has never been reachable.
    let toml = SETTINGS.to_owned() + &entry("never", &a, "") + &entry("b", &b, "");
    let daemon = Daemon::with_config(&toml);
    assert_eq!(names(&daemon), ["send", "receive"]);
}

#[test]
fn a_servers_own_name_opens_no_tool_for_a_model() {
    let b = server(&["send", "b_other"]);
    let models = "[[models]]\nid = \"own\"\n\
        tools = { function_calling = true, mcp = true, enabled_tools = [\"send\", \"b_other\"] }\n\
        [[models]]\nid = \"registered\"\n\
        tools = { function_calling = true, mcp = true, enabled_tools = [\"b_send\"] }\n";
    let sidecar = Sidecar::with_config(&(SETTINGS.to_owned() + models + &entry("b", &b, "")));
    let ask = |model: &str, method: &str, params: Value| {
        let (headers, body) = stateless(method, params, json!({}));
        let (target, body) = (format!("/mcp?model={model}"), body.to_string());
        sidecar.post_with(&target, &headers, body.as_bytes()).json()
    };
    let list = |model| ask(model, "tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(list("own"), json!([]));
    assert_eq!(list("registered")[0]["name"], "send");
    let params = json!({"name": "send", "arguments": {}});
    let rejected = ask("own", "tools/call", params.clone());
    assert_eq!(rejected["error"]["message"], "Unknown tool: send");
    assert_eq!(b.count("tools/call"), 0);
    assert!(ask("registered", "tools/call", params)["result"].is_object());
    assert_eq!(b.count("tools/call"), 1);
}
