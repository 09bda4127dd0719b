//! The tools of MCP servers, offered through the sidecar.

use pillion_client::wire::{ExecuteResponse, ToolList, ToolOutcome, route};

use crate::prelude::*;

fn tools(names: &[&str]) -> Value {
    let tools = names.iter().map(|name| {
        json!({
            "name": name,
            "description": format!("The remote tool {name}"),
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        })
    });
    tools.collect()
}

fn echo(mood: Mood) -> McpServer {
    let server = McpServer::start(tools(&["echo"]));
    server.set_mood(mood);
    server
}

/// Returns the configuration of a server, with settings that shorten the waiting.
fn config(label: &str, server: &McpServer, more: &str) -> String {
    format!(
        "[mcp]\ndiscovery_timeout_ms = 500\nretry_after_ms = 100\nrefresh_after_ms = 0\n{}",
        entry(label, server, more)
    )
}

fn entry(label: &str, server: &McpServer, more: &str) -> String {
    server_entry(label, &server.url, more)
}

fn list(sidecar: &Sidecar) -> ToolList {
    sidecar.client().fetch(route::LIST_TOOLS).unwrap()
}

fn names(list: &ToolList) -> Vec<&str> {
    list.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn call(sidecar: &Sidecar, tool: &str, arguments: &Value) -> ToolOutcome {
    let client = sidecar.client();
    client.run_tool(tool, arguments, &Caller::default())
}

#[test]
fn e9_no_server_is_contacted_before_it_is_needed() {
    let server = echo(Mood::Well);
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    sidecar.client().fetch(route::HEALTH).unwrap();
    assert!(call(&sidecar, "calculator", &json!({"expression": "1"})).success);
    assert_eq!(server.count("initialize") + server.count("tools/list"), 0);

    let list = list(&sidecar);
    assert!(names(&list).contains(&"far_echo"), "{:?}", names(&list));
    let mut tools = list.tools.iter();
    let echo = tools.find(|tool| tool.name == "far_echo").unwrap();
    assert_eq!(echo.server_label.as_deref(), Some("far"));
    assert_eq!(echo.server_tool.as_deref(), Some("echo"));
    assert_eq!(echo.server_url.as_deref(), Some(server.url.as_str()));
    assert_eq!(echo.description, "The remote tool echo");
    assert_eq!(echo.parameters[0].kind, "STRING");
    assert!(list.unavailable_servers.is_empty());
    sidecar.client().fetch(route::LIST_SCHEMAS).unwrap();
    assert_eq!(server.count("tools/list"), 1);
}

#[test]
fn e9_a_tool_is_found_by_name_without_a_list() {
    let server = echo(Mood::Well);
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    let outcome = call(&sidecar, "far_echo", &json!({"text": "hi"}));
    assert!(outcome.success, "{outcome:?}");
    assert_eq!(outcome.text, "called \"echo\"\ntwice");
}

#[test]
fn e10_the_result_of_the_server_is_unchanged() {
    let server = echo(Mood::Well);
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    let outcome = call(&sidecar, "far_echo", &json!({"text": "hi"}));
    let data = json!({
        "content": [
            {"type": "text", "text": "called \"echo\""},
            {"type": "text", "text": "twice"},
        ],
        "structuredContent": {"echo": {"text": "hi"}},
    });
    assert_eq!(outcome.data, data);
}

#[test]
fn e10_failures_and_results_with_other_content_keep_their_content() {
    let server = McpServer::start(tools(&["picture", "broken"]));
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    let outcome = call(&sidecar, "far_picture", &json!({}));
    assert_eq!(outcome.text, "a picture\n[image image/png, 1 bytes]");
    assert_eq!(outcome.data["content"][1]["mimeType"], "image/png");
    let outcome = call(&sidecar, "far_broken", &json!({}));
    assert!(!outcome.success);
    assert_eq!(outcome.error.as_deref(), Some("out of paper"));
    assert_eq!(outcome.data["isError"], true);
}

#[test]
fn the_prefix_is_configurable_and_separates_two_servers() {
    let one = McpServer::start(tools(&["search"]));
    let two = McpServer::start(tools(&["search", "calculator"]));
    let toml = config("one", &one, "") + &entry("two", &two, "tool_prefix = \"\"");
    let sidecar = Sidecar::with_config(&toml);
    let list = list(&sidecar);
    // The tools are in the order of the servers in the configuration.
    let mut remote = names(&list);
    remote.retain(|name| name.contains("search"));
    assert_eq!(remote, ["one_search", "search"]);
    // A built-in tool is never replaced by a server's.
    let names = names(&list);
    let calculators = names.iter().filter(|name| **name == "calculator");
    assert_eq!(calculators.count(), 1);
    let sum = call(&sidecar, "calculator", &json!({"expression": "1+1"}));
    assert_eq!(sum.text, "2");
}

#[test]
fn f6_a_tool_whose_name_has_other_characters_is_called_under_its_own_name() {
    let long = "x".repeat(130);
    let server = McpServer::start(tools(&["a.b", "a_b", "3d", "calendar.add-event", &long]));
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    let list = list(&sidecar);
    let mut names = names(&list);
    names.retain(|name| name.starts_with("far_"));
    let [a_b, of_3d, calendar, shortened] = names[..] else {
        panic!("{names:?}");
    };
    let expected = ["far_a_b", "far_3d", "far_calendar_add-event"];
    assert_eq!([a_b, of_3d, calendar], expected);
    assert_eq!(shortened.len(), 128);
    for (name, own) in [
        // The server has a tool with exactly this name.
        (a_b, "a_b"),
        (of_3d, "3d"),
        (calendar, "calendar.add-event"),
        (shortened, long.as_str()),
    ] {
        assert!(call(&sidecar, name, &json!({})).success, "{name}");
        assert_eq!(server.last_tool(), own);
    }
    // MCP clients know the server's own names.
    let listed = ask(&sidecar.socket, "tools/list", json!({}))["result"]["tools"].to_string();
    assert_contains!(listed, "\"name\":\"calendar.add-event\"");
    let params = json!({"name": "calendar.add-event", "arguments": {}});
    let called = ask(&sidecar.socket, "tools/call", params);
    assert_json!(called["error"], Value::Null);
    assert_eq!(server.last_tool(), "calendar.add-event");
}

#[test]
fn a_failed_server_is_named_and_affects_no_other_server() {
    let (ill, asleep, well) = (echo(Mood::Ill), echo(Mood::Asleep), echo(Mood::Well));
    let toml = config("ill", &ill, "") + &entry("asleep", &asleep, "") + &entry("well", &well, "");
    let sidecar = Sidecar::with_config(&toml);
    let started = Instant::now();
    let list = list(&sidecar);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(names(&list).contains(&"well_echo"));
    let failed = list.unavailable_servers.iter();
    let (labels, errors): (Vec<_>, Vec<_>) = failed.map(|it| (&*it.label, &it.error)).unzip();
    assert_eq!(labels, ["ill", "asleep"]);
    assert_contains!(errors[0], "500");

    // A call of one of its tools returns the reason.
    let failure = sidecar.client().run_missing_tool("ill_echo");
    assert_eq!(failure.error_code, "unavailable");
    let text = "Tool 'ill_echo' cannot be called: MCP server 'ill' is unavailable: ";
    assert_eq!(failure.error, format!("{text}{}", errors[0]));
    let servers = json!([{"label": "ill", "error": errors[0]}]);
    assert_eq!(failure.details["unavailable_servers"], servers);
    assert_eq!(errors[1], "the server did not list its tools within 0.5s");
}

#[test]
fn a_recovered_server_is_used_after_the_backoff() {
    let server = echo(Mood::Ill);
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    assert_eq!(list(&sidecar).unavailable_servers.len(), 1);
    server.set_mood(Mood::Well);
    let is_back = || names(&list(&sidecar)).contains(&"far_echo");
    eventually("the server's tools are there", is_back);
}

#[test]
fn a_failed_server_is_backed_off_for_a_while() {
    let server = echo(Mood::Ill);
    let toml = config("far", &server, "").replace("retry_after_ms = 100", "retry_after_ms = 60000");
    let sidecar = Sidecar::with_config(&toml);
    let requests = || server.count("initialize") + server.count("tools/list");
    list(&sidecar);
    let before = requests();
    assert_eq!(list(&sidecar).unavailable_servers.len(), 1);
    assert_eq!(requests(), before);
}

#[test]
fn a_call_by_name_tries_a_failed_server_during_the_backoff_of_lists() {
    let server = echo(Mood::Ill);
    let toml = config("far", &server, "").replace("retry_after_ms = 100", "retry_after_ms = 60000");
    let sidecar = Sidecar::with_config(&toml);
    // The server fails often enough that the client considers it down.
    for _ in 0..5 {
        let failure = sidecar.client().run_missing_tool("far_echo");
        assert_eq!(failure.error_code, "unavailable", "{failure:?}");
    }
    let shown = sidecar.get("/api/v1/tools/far_echo");
    assert_eq!(shown.expect(503)["error_code"], "unavailable");
    let params = json!({"name": "far_echo", "arguments": {}});
    let result = ask(&sidecar.socket, "tools/call", params)["result"].clone();
    assert_json!(result["isError"], true);
    assert_json!(result["_meta"]["pillion/error_code"], "unavailable");
    let text = result["content"][0]["text"].text();
    assert_contains!(text, "MCP server 'far' is unavailable: ");
    // A name without a server's prefix is still unknown.
    let failure = sidecar.client().run_missing_tool("missing");
    assert_eq!(failure.error_code, "not_found");
    server.set_mood(Mood::Well);
    let before = server.count("tools/list");
    // Lists do not contact the server during the backoff.
    assert_eq!(list(&sidecar).unavailable_servers.len(), 1);
    assert_eq!(server.count("tools/list"), before);
    assert!(call(&sidecar, "far_echo", &json!({})).success);
    assert!(names(&list(&sidecar)).contains(&"far_echo"));
}

#[test]
fn a_server_that_hangs_does_not_delay_the_first_call_of_another() {
    let (asleep, well) = (echo(Mood::Asleep), echo(Mood::Well));
    let toml = (config("asleep", &asleep, "") + &entry("well", &well, ""))
        .replace("discovery_timeout_ms = 500", "discovery_timeout_ms = 15000");
    let sidecar = Sidecar::with_config(&toml);
    let started = Instant::now();
    std::thread::scope(|scope| {
        // One client lists the tools, and waits for both servers.
        let lists = scope.spawn(|| list(&sidecar));
        eventually("the hanging server receives a request", || {
            asleep.count("initialize") + asleep.count("server/discover") > 0
        });
        assert!(call(&sidecar, "well_echo", &json!({})).success);
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(!lists.is_finished());
        asleep.set_mood(Mood::Well);
        drop(asleep);
        let list = lists.join().unwrap();
        assert!(names(&list).contains(&"well_echo"));
    });
}

/// A script that is a server on its standard streams, and lists its tool after three seconds. The
/// tool returns the number of lists.
const SLOW_LIST: &str = r#"
import json, sys, time
lists = 0
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "tools/list":
        time.sleep(3)
        lists += 1
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "slow", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "lists", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": str(lists)}]},
    }
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    reply |= (
        {"result": results[request["method"]]}
        if request["method"] in results
        else {"error": {"code": -32601, "message": "unknown"}}
    )
    print(json.dumps(reply), flush=True)
"#;

#[test]
fn a_call_waits_for_the_list_of_its_server_until_its_deadline() {
    let toml = format!(
        "[executor]\ntimeout_ms = 1000\n[mcp]\ndiscovery_timeout_ms = 30000\n[[mcp_servers]]\n\
         label = \"slow\"\ncommand = \"python3\"\nargs = {}\n",
        json!(["-c", SLOW_LIST])
    );
    let sidecar = Sidecar::with_config(&toml);
    let execute = || {
        let caller = Caller::default();
        let response = sidecar.client();
        response.execute("slow_lists", &json!({}), &caller).unwrap()
    };
    let late = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(execute)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).last()
    });
    let Some(ExecuteResponse::NotFound(failure)) = late else {
        panic!("the tools are not listed yet: {late:?}")
    };
    assert_eq!(failure.error_code, "unavailable");
    let reason = "the server did not list its tools within 1.0s";
    assert_contains!(failure.error, reason);
    // The request for the list continues after the calls that started it have ended.
    let mut lists = String::new();
    eventually("a call finds the tool", || match execute() {
        ExecuteResponse::Executed(execution) => {
            lists = execution.result.text;
            true
        }
        ExecuteResponse::NotFound(failure) => {
            assert_eq!(failure.error_code, "unavailable");
            false
        }
    });
    assert_eq!(lists, "1");
}

#[test]
fn no_call_waits_for_a_hanging_list_longer_than_its_deadline() {
    let asleep = echo(Mood::Asleep);
    let toml = config("far", &asleep, "[executor]\ntimeout_ms = 1000")
        .replace("discovery_timeout_ms = 500", "discovery_timeout_ms = 50000");
    let daemon = Daemon::with_config(&toml);
    let batch = json!({"calls": [{"id": "1", "name": "far_echo", "arguments": {}}]}).to_string();
    let call = ("/api/v1/tools/execute/far_echo", "{}");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (path, body) in [call, call, ("/api/v1/tools/batch-execute", &*batch)] {
            let socket = &daemon.socket;
            scope.spawn(move || {
                assert_contains!(socket.post(path, body).json().to_string(), "within 1.0s");
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn lists_have_the_order_of_the_configuration() {
    let one = McpServer::start(tools(&["a", "b"]));
    let two = McpServer::start(tools(&["a"]));
    let toml = config("one", &one, "") + &entry("two", &two, "");
    let sidecar = Sidecar::with_config(&toml);
    assert!(call(&sidecar, "two_a", &json!({})).success);
    let list = list(&sidecar);
    let mut names = names(&list);
    names.retain(|name| name.starts_with("one_") || name.starts_with("two_"));
    assert_eq!(names, ["one_a", "one_b", "two_a"]);
}

#[test]
fn concurrent_requests_share_one_listing() {
    let server = echo(Mood::Well);
    let sidecar = Sidecar::with_config(&config("far", &server, ""));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(names(&list(&sidecar)).contains(&"far_echo")));
        }
    });
    assert_eq!(server.count("tools/list"), 1);
}

#[test]
fn an_old_list_is_refreshed() {
    let server = McpServer::start(tools(&["echo", "old"]));
    let toml = config("far", &server, "").replace("refresh_after_ms = 0", "refresh_after_ms = 50");
    let sidecar = Sidecar::with_config(&toml);
    assert!(names(&list(&sidecar)).contains(&"far_old"));
    server.set_tools(tools(&["echo", "new"]));
    eventually("the new list is there", || {
        let list = list(&sidecar);
        let names = names(&list);
        names.contains(&"far_new") && !names.contains(&"far_old") && names.contains(&"far_echo")
    });
    // Known tools stay when the server fails.
    server.set_mood(Mood::Ill);
    eventually("the failure is reported", || {
        let list = list(&sidecar);
        assert!(names(&list).contains(&"far_new"));
        list.unavailable_servers.len() == 1
    });
}

#[test]
fn a_disabled_server_is_never_contacted() {
    let server = echo(Mood::Well);
    let sidecar = Sidecar::with_config(&config("far", &server, "enabled = false"));
    assert!(!names(&list(&sidecar)).contains(&"far_echo"));
    assert_eq!(server.count("initialize"), 0);
}

#[test]
fn c7_the_limit_of_a_server_counts_all_its_tools() {
    let server = McpServer::start(tools(&["a", "b"]));
    let sidecar = Sidecar::with_config(&config("far", &server, "rate_limit = { per_minute = 2 }"));
    assert!(call(&sidecar, "far_a", &json!({})).success);
    assert!(call(&sidecar, "far_b", &json!({})).success);
    let rejected = call(&sidecar, "far_a", &json!({}));
    assert_eq!(rejected.error_code.as_deref(), Some("rate_limited"));
}

#[test]
fn l1_e8_a_token_from_the_environment_reaches_the_server_and_no_log() {
    let server = echo(Mood::Well);
    let authentication = "authentication = { type = \"bearer\", token_env = \"FAR_TOKEN\" }";
    let toml = config("far", &server, authentication);
    let variables = [("FAR_TOKEN", "hunter2"), ("PILLION__LOG__FILTER", "trace")];
    let daemon = Daemon::with_variables(&toml, &variables);
    let response = daemon.execute("far_echo", &json!({}));
    assert_json!(response["result"]["success"], true);
    let mut credentials = server.credentials();
    credentials.dedup();
    assert_eq!(credentials, ["Bearer hunter2"]);

    server.set_mood(Mood::Ill);
    daemon
        .client()
        .execute("far_echo", &json!({}), &Caller::default())
        .unwrap();
    assert_lacks!(daemon.log(), "hunter2");
}

#[test]
fn e7_a_server_may_be_a_program_that_ends_with_the_sidecar() {
    let (program, arguments) = pillion_testkit::fake_stdio(&[]);
    let arguments: Vec<_> = arguments.iter().map(|argument| json!(argument)).collect();
    let sidecar = Sidecar::with_config(&format!(
        "[[mcp_servers]]\nlabel = \"near\"\ncommand = \"{program}\"\nargs = {}\n",
        json!(arguments)
    ));
    let list = list(&sidecar);
    assert!(names(&list).contains(&"near_roll"), "{list:?}");
    let outcome = call(&sidecar, "near_roll", &json!({}));
    assert!(outcome.success, "{outcome:?}");
    assert_eq!(outcome.data, json!({"total": 15, "rolls": [15]}));
}
