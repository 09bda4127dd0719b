use pillion_testkit::Reply;

use super::*;

/// Starts a server with these tools, and a prompt and a resource of each name.
fn server(says: &'static str, tools: &'static [&'static str]) -> FakeMcp {
    let list = |key: &'static str, entry: fn(&str) -> Value| {
        move |_: &Value| {
            let entries: Vec<_> = tools.iter().map(|name| entry(name)).collect();
            Reply::result(&json!({ key: entries }))
        }
    };
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let prompt = |name: &str| json!({"name": name, "x": 1});
    let resource = |name: &str| json!({"uri": format!("a://{name}")});
    let template = |name: &str| json!({"uriTemplate": format!("{name}://{{id}}")});
    FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", list("tools", tool))
        .on("prompts/list", list("prompts", prompt))
        .on("resources/list", list("resources", resource))
        .on(
            "resources/templates/list",
            list("resourceTemplates", template),
        )
        .on("tools/call", move |params| {
            Reply::result(&json!({"content": [], "structuredContent": {says: params["name"]}}))
        })
        .on("prompts/get", move |params| {
            Reply::result(&json!({"messages": [], "by": says, "name": params["name"]}))
        })
        .on("resources/read", move |params| {
            Reply::result(&json!({"contents": [{"uri": params["uri"], "text": says}]}))
        })
        .on("completion/complete", move |params| {
            Reply::result(&json!({"completion": {"values": [says, params["ref"]["name"]]}}))
        })
        .start()
}

fn entry(label: &str, server: &FakeMcp, more: &str) -> String {
    server_entry(label, &server.url, more)
}

fn listed(sidecar: &Sidecar, method: &str, key: &str, id: &str) -> Vec<String> {
    let result = ask(&sidecar.socket, method, json!({}))["result"].clone();
    assert_json!(result["ttlMs"], 0);
    let entries = result[key].items().iter();
    entries.map(|entry| entry[id].text().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_get_a_prefix_on_conflicts_or_if_configured() {
    let one = server("one", &["search", "only-one"]);
    let two = server("two", &["search", "calculator"]);
    let three = server("three", &["own"]);
    let toml = entry("one", &one, "")
        + &entry("two", &two, "")
        + &entry("three", &three, "tool_prefix = \"x_\"");
    let sidecar = Sidecar::with_config(&toml);
    let names = listed(&sidecar, "tools/list", "tools", "name");
    let of_servers = names.iter().skip_while(|name| *name != "one_search");
    let expected_names = [
        "one_search",
        "only-one",
        "two_search",
        "two_calculator",
        "x_own",
    ];
    assert_eq!(of_servers.collect::<Vec<_>>(), expected_names);
    let call = |name: &str| {
        let params = json!({"name": name, "arguments": {}});
        ask(&sidecar.socket, "tools/call", params)["result"]["structuredContent"].clone()
    };
    assert_eq!(call("two_search"), json!({"two": "search"}));
    assert_eq!(call("only-one"), json!({"one": "only-one"}));
    // The full name within the sidecar is accepted, too.
    assert_eq!(call("one_only-one"), json!({"one": "only-one"}));
    assert_eq!(call("x_own"), json!({"three": "own"}));

    let prompts = listed(&sidecar, "prompts/list", "prompts", "name");
    let expected_prompts = [
        "one_search",
        "only-one",
        "two_search",
        "calculator",
        "x_own",
    ];
    assert_eq!(prompts, expected_prompts);
    let get = |name: &str| ask(&sidecar.socket, "prompts/get", json!({"name": name}));
    let got = get("two_search")["result"].clone();
    assert_json!(got["by"], "two");
    assert_json!(got["name"], "search");
    assert_eq!(get("x_own")["result"]["by"], "three");
    assert_eq!(get("search")["error"]["code"], -32602);
    let params = json!({"ref": {"type": "ref/prompt", "name": "x_own"},
        "argument": {"name": "a", "value": ""}});
    let completed = ask(&sidecar.socket, "completion/complete", params);
    let expected = json!(["three", "own"]);
    assert_eq!(completed["result"]["completion"]["values"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_a_resource_is_read_from_its_server() {
    let one = server("one", &["shared", "b"]);
    let two = server("two", &["shared", "c"]);
    let sidecar = Sidecar::with_config(&(entry("one", &one, "") + &entry("two", &two, "")));
    let read = |uri: &str| ask(&sidecar.socket, "resources/read", json!({"uri": uri}));
    let text = |uri: &str| read(uri)["result"]["contents"][0]["text"].clone();
    // Reading works also if no list was requested before.
    assert_eq!(text("a://c"), "two");
    assert_eq!(text("a://shared"), "one");
    assert_eq!(text("b://anything"), "one");
    assert_eq!(text("c://anything"), "two");
    let uris = listed(&sidecar, "resources/list", "resources", "uri");
    assert_eq!(uris, ["a://shared", "a://b", "a://c"]);
    let missing = read("missing://has/this");
    assert_eq!(missing["error"]["code"], -32602);
    assert_eq!(missing["error"]["data"]["uri"], "missing://has/this");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_server_does_not_affect_other_servers() {
    let well = server("well", &["a"]);
    let ill = FakeMcp::start_with(Dialect::StreamableJson, "prompts/list", |_| {
        Reply::error(-32603, "ill")
    });
    let sidecar = Sidecar::with_config(&(entry("ill", &ill, "") + &entry("well", &well, "")));
    assert_eq!(listed(&sidecar, "prompts/list", "prompts", "name"), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_the_header_has_the_servers_name_of_the_tool() {
    // Servers of revision 2026-07-28 reject a call whose `Mcp-Name` header differs from the name in
    // the body.
    let servers = [(); 2].map(|()| FakeMcp::start(Dialect::Stateless));
    let [one, two] = &servers;
    let auto = |label, server| entry(label, server, "").replace("\"streamable_http\"", "\"auto\"");
    let sidecar = Sidecar::with_config(&(auto("one", one) + &auto("two", two)));
    let names = listed(&sidecar, "tools/list", "tools", "name");
    let of_servers: Vec<_> = names.iter().filter(|name| name.contains("roll")).collect();
    assert_eq!(of_servers, ["roll_dice", "one_roll", "two_roll"]);
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    for (name, server) in [("one_roll", one), ("two_roll", two)] {
        let before = server.requests.count("tools/call");
        let params = json!({"name": name, "arguments": {"dice": "1d20"}});
        let modern = ask(&sidecar.socket, "tools/call", params.clone());
        let earlier = session.ask("tools/call", params);
        for response in [modern, earlier] {
            assert_json!(response["result"]["structuredContent"]["total"], 15);
        }
        let path = format!("/api/v1/tools/execute/{name}");
        let rest = sidecar.post(&path, r#"{"dice": "1d20"}"#).json();
        assert_json!(rest["result"]["data"]["total"], 15);
        let calls = server.requests.calls("tools/call");
        assert_eq!(calls.len(), before + 3);
        for call in calls {
            assert_eq!(call.header("mcp-name"), "roll");
            assert_eq!(call.header("mcp-method"), "tools/call");
            assert_eq!(call.json()["params"]["name"], "roll");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_a_template_hides_no_resource_of_another_server() {
    let templates = json!({"resourceTemplates": [{"uriTemplate": "{+uri}"}]});
    let greedy = FakeMcp::builder(Dialect::StreamableJson)
        .on("resources/templates/list", fixed(templates))
        .on("resources/read", |params| {
            Reply::result(&json!({"contents": [{"uri": params["uri"], "text": "greedy"}]}))
        })
        .start();
    let two = server("two", &["c"]);
    let sidecar = Sidecar::with_config(&(entry("greedy", &greedy, "") + &entry("two", &two, "")));
    let text = |uri: &str| {
        let read = ask(&sidecar.socket, "resources/read", json!({"uri": uri}));
        read["result"]["contents"][0]["text"].clone()
    };
    // No list was requested before.
    assert_eq!(text("a://c"), "two");
    assert_eq!(text("what://ever"), "greedy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_never_has_the_prefixed_name_of_another_prompt() {
    let bad = server("bad", &["greet", "b_greet"]);
    let good = server("good", &["greet"]);
    let sidecar = Sidecar::with_config(&(entry("a", &bad, "") + &entry("b", &good, "")));
    let prompts = listed(&sidecar, "prompts/list", "prompts", "name");
    assert_eq!(prompts, ["a_greet", "a_b_greet", "b_greet"]);
    let by = |name: &str| {
        let got = ask(&sidecar.socket, "prompts/get", json!({"name": name}));
        got["result"]["by"].clone()
    };
    assert_eq!(by("b_greet"), "good");
    assert_eq!([by("a_greet"), by("a_b_greet")], ["bad", "bad"]);
    // The names of tools follow the same rules.
    let mut tools = listed(&sidecar, "tools/list", "tools", "name");
    tools.retain(|name| name.ends_with("greet"));
    assert_eq!(tools, ["a_greet", "a_b_greet", "b_greet"]);
    let params = json!({"name": "b_greet", "arguments": {}});
    let called = ask(&sidecar.socket, "tools/call", params);
    let expected = json!({"good": "greet"});
    assert_eq!(called["result"]["structuredContent"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_never_has_a_name_that_belongs_to_another_server() {
    let bad = server("bad", &["a_greet", "b_c_greet", "fine"]);
    let down = "http://127.0.0.1:9/";
    for order in [true, false] {
        let of_down = ["a", "x_b_c"].map(|label| detected_entry(label, down, ""));
        let of_bad = entry("x", &bad, "");
        let toml = match order {
            true => of_bad + &of_down.concat(),
            false => of_down.concat() + &of_bad,
        };
        let sidecar = Sidecar::with_config(&toml);
        // `x_b_c_greet` belongs to `x_b_c`, and the name without the prefix to no server.
        let prompts = listed(&sidecar, "prompts/list", "prompts", "name");
        assert_eq!(prompts, ["x_a_greet", "b_c_greet", "fine"]);
        let get = |name: &str| ask(&sidecar.socket, "prompts/get", json!({"name": name}));
        assert_eq!(get("a_greet")["error"]["code"], -32602);
        assert_eq!(get("x_a_greet")["result"]["name"], "a_greet");
    }
    let good = server("good", &["c_greet"]);
    let toml = entry("x", &bad, "tool_prefix = \"x_\"") + &entry("x_b", &good, "");
    let sidecar = Sidecar::with_config(&toml);
    let prompts = listed(&sidecar, "prompts/list", "prompts", "name");
    assert_eq!(prompts, ["x_a_greet", "x_fine", "c_greet"]);
}
