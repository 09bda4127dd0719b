//! Tools that the configuration composes of other tools (P): in every interface, in the call log,
//! and across approvals, restarts and reloads.

use crate::approvals::decide;
use crate::prelude::*;

/// A composed tool that squares two numbers in parallel and adds the squares.
const PYTHAGORAS: &str = r#"
[[composed_tools]]
name = "sum_of_squares"
description = "The sum of the squares of two numbers"
input_schema = { properties = { a = { type = "number" }, b = { type = "number" } }, required = ["a", "b"] }

[[composed_tools.steps]]
parallel = [
  { name = "a2", tool = "calculator", arguments = { expression = { "$text" = [{ "$from" = "/input/a" }, "**2"] } } },
  { name = "b2", tool = "calculator", arguments = { expression = { "$text" = [{ "$from" = "/input/b" }, "**2"] } } },
]

[[composed_tools.steps]]
name = "sum"
tool = "calculator"
arguments.expression = { "$text" = [{ "$from" = "/steps/a2/text" }, "+", { "$from" = "/steps/b2/text" }] }
"#;

fn execute(socket: &Path, tool: &str, arguments: &Value, headers: &str) -> Value {
    let target = format!("/api/v1/tools/execute/{tool}");
    socket
        .post_with(&target, headers, arguments.to_string())
        .expect(200)
}

#[test]
fn p_a_run_is_one_tree_in_the_call_log() {
    let daemon = Daemon::with_config(PYTHAGORAS);
    let socket = &daemon.socket;
    let headers = "x-pillion-user: alice\r\n";
    let response = execute(socket, "sum_of_squares", &json!({"a": 3, "b": 4}), headers);
    assert_json!(response["result"]["text"], "25");
    let outer = response["result"]["metadata"]["record_id"].text();

    let all = socket.recorded("");
    assert_eq!(all.len(), 4);
    let inner = socket.recorded(&format!("?parent={outer}"));
    let arguments = |call: &Value| call["arguments"]["expression"].text().to_owned();
    assert_eq!(arguments(&inner[0]), "9+16");
    let mut squares = [arguments(&inner[1]), arguments(&inner[2])];
    squares.sort();
    assert_eq!(squares, ["3**2", "4**2"]);
    for call in &inner {
        assert_eq!(call["parentId"], outer);
        assert_eq!(call["user"], "alice");
        assert_eq!(call["status"], "success");
    }
    let steps = response["result"]["metadata"]["steps"].items();
    assert_eq!(steps[2]["record_id"], inner[0]["id"]);

    let tree = stdout(&daemon.run(&["calls", "list", "--tree"]));
    let shows = |line: &str| ["sum_of_squares", "└ calculator"].map(|tool| line.contains(tool));
    let tools: Vec<_> = tree.lines().skip(1).map(shows).collect();
    assert_eq!(tools[0], [true, false], "{tree}");
    assert_eq!(tools[1..], [[false, true]; 3], "{tree}");
    let below = daemon.run(&["calls", "list", "--parent", outer]);
    assert_eq!(stdout(&below).lines().count(), 4);
    let wrong = socket.get("/api/v1/tool-calls/?parent=x");
    assert_eq!(wrong.status, 400);
}

#[test]
fn p_after_an_approval_the_call_continues_although_the_sidecar_was_killed() {
    let config = r#"
[tools.roll_dice]
require_approval = "always"

[[composed_tools]]
name = "gamble"
description = "Works out a number of dice and rolls them"
input_schema = { properties = { n = { type = "integer" } }, required = ["n"] }

[[composed_tools.steps]]
name = "count"
tool = "calculator"
arguments.expression = { "$text" = [{ "$from" = "/input/n" }, "*2"] }

[[composed_tools.steps]]
name = "dice"
tool = "roll_dice"
arguments.notation = { "$text" = [{ "$from" = "/steps/count/text" }, "d2"] }
"#;
    let mut daemon = Daemon::with_config(config);
    let headers = "x-pillion-user: alice\r\nidempotency-key: once\r\n";
    let stopped = execute(&daemon.socket, "gamble", &json!({"n": 3}), headers);
    let result = &stopped["result"];
    assert_eq!(result["error_code"], "approval_required", "{stopped}");
    assert_starts_with!(result["error"].text(), "Step 'dice': ");
    assert_eq!(result["metadata"]["arguments"], json!({"notation": "6d2"}));
    assert_eq!(result["metadata"]["steps_kept"], true);
    let first = result["metadata"]["record_id"].clone();
    let approval = result["metadata"]["approval_id"].text();
    let shown = daemon.get(&format!("/api/v1/approvals/{approval}")).json();
    assert_eq!(shown["approval"]["tool"], "roll_dice");

    let daemon = daemon.restart();
    let socket = &daemon.socket;
    // The outer call has ended; the step that needs approval is still pending.
    let status = |query: &str| socket.recorded(query)[0]["status"].clone();
    assert_eq!(status("?tool=gamble"), "error");
    assert_eq!(status("?tool=roll_dice"), "pending");
    assert_eq!(decide(socket, approval, "approve").status, 200);
    let done = execute(socket, "gamble", &json!({"n": 3}), headers);
    assert_json!(done["result"]["success"], true);
    let resumed = &done["result"]["metadata"]["resumed"];
    assert_eq!(*resumed, json!({"call": first, "steps": ["count"]}));
    assert_eq!(socket.recorded("?tool=calculator").len(), 1);
    // The second run has the roll in its own tree, and no call is pending.
    let outer = done["result"]["metadata"]["record_id"].text();
    let below = socket.recorded(&format!("?parent={outer}"));
    assert_eq!(below.len(), 1);
    assert_eq!(below[0]["toolName"], "roll_dice");
    assert!(socket.recorded("?status=pending").is_empty());
    // The tool of the approved step has run.
    let replayed = execute(socket, "gamble", &json!({"n": 3}), headers);
    assert_eq!(replayed, done);
}

#[test]
fn p_steps_may_use_tools_of_mcp_servers_and_their_results_are_not_returned() {
    let server = McpServer::echo();
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n\
         [[composed_tools]]\nname = \"twice\"\ndescription = \"Asks a server twice\"\n\
         steps = [\n  {{ name = \"a\", tool = \"far_echo\" }},\n  {{ name = \"b\", tool = \"far_echo\" }},\n]\n\
         output = {{ said = {{ \"$from\" = \"/steps/b/text\" }}, twice = true }}\n",
        server.url
    );
    // The composed tool works although no interface has listed the server's tools yet.
    let daemon = Daemon::with_config(&toml);
    let params = json!({"name": "twice", "arguments": {}});
    let response = ask(&daemon.socket, "tools/call", params);
    assert_json!(
        response["result"]["structuredContent"]["data"]["twice"],
        true
    );
    assert_eq!(server.count("tools/call"), 2);
    let daemon = Daemon::with_config(&toml);
    let response = execute(&daemon.socket, "twice", &json!({}), "");
    assert_json!(response["result"]["success"], true);
    assert_eq!(response["result"]["data"]["twice"], true);
}

#[test]
fn p_a_step_of_a_server_that_is_down_fails_clearly() {
    let toml = "[[composed_tools]]\nname = \"once\"\ndescription = \"Asks a server\"\n\
         steps = [{ name = \"a\", tool = \"nowhere_echo\" }]\n\
         [[mcp_servers]]\nlabel = \"nowhere\"\nurl = \"http://127.0.0.1:9/mcp\"\n\
         transport = \"streamable_http\"\n";
    let daemon = Daemon::with_config(toml);
    let text = "MCP server 'nowhere' is unavailable: ";
    let response = execute(&daemon.socket, "once", &json!({}), "");
    assert_json!(response["result"]["error_code"], "unavailable");
    assert_contains!(response["result"]["error"].text(), text);
    let params = json!({"name": "once", "arguments": {}});
    let result = ask(&daemon.socket, "tools/call", params)["result"].clone();
    assert_eq!(result["structuredContent"]["error"]["code"], "unavailable");
    assert!(!daemon.offers("nowhere_echo"));
}

#[test]
fn p_steps_are_recorded_as_cancelled_when_the_outer_call_times_out() {
    let server = McpServer::echo();
    let toml = format!(
        "[tools.chain]\ntimeout_ms = 500\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         [[composed_tools]]\nname = \"chain\"\ndescription = \"A test\"\n\
         steps = [{{ name = \"a\", tool = \"far_echo\" }}, {{ name = \"b\", tool = \"far_echo\" }}]\n",
        server.url
    );
    let daemon = Daemon::with_config(&toml);
    assert!(daemon.offers("far_echo"));
    server.set_mood(Mood::Asleep);
    let response = execute(&daemon.socket, "chain", &json!({}), "");
    assert_json!(response["result"]["error_code"], "timeout");
    let outer = response["result"]["metadata"]["record_id"].text();
    eventually("the step is cancelled", || {
        let below = daemon.recorded(&format!("?parent={outer}"));
        below.len() == 1 && below[0]["status"] == "cancelled"
    });
}

#[test]
fn p_a_reload_updates_composed_tools_and_rejects_cycles() {
    let tool = |name: &str, steps: &str| {
        format!(
            "[[composed_tools]]\nname = \"{name}\"\ndescription = \"A test\"\nsteps = [{steps}]\n"
        )
    };
    let sum = |n: u32| {
        let arguments = format!("{{ expression = \"{n}\" }}");
        format!("{{ name = \"a\", tool = \"calculator\", arguments = {arguments} }}")
    };
    let daemon = Daemon::with_config(&(tool("one", &sum(1)) + &tool("two", &sum(2))));
    let socket = &daemon.socket;
    let text = |name: &str| execute(socket, name, &json!({}), "")["result"]["text"].clone();
    assert_eq!((text("one"), text("two")), (json!("1"), json!("2")));

    reload(&daemon, &(tool("one", &sum(10)) + &tool("three", &sum(3))));
    assert_eq!((text("one"), text("three")), (json!("10"), json!("3")));
    assert!(!daemon.offers("two"));

    let call = |tool: &str| format!("{{ name = \"a\", tool = \"{tool}\" }}");
    reload(
        &daemon,
        &(tool("one", &call("three")) + &tool("three", &call("one"))),
    );
    let response = socket.get("/readyz").json();
    let error = response["last_reload"]["error"].text();
    assert_contains!(error, "in a cycle: one -> three -> one");
    assert_eq!(text("one"), json!("10"));
    reload(&daemon, "# No settings.\n");
    let offered = ["calculator", "one", "three"].map(|tool| daemon.offers(tool));
    assert_eq!(offered, [true, false, false]);
}

#[test]
fn p_errors_in_a_declaration_name_the_line() {
    let rejected = |toml: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        std::fs::write(&file, toml).unwrap();
        let mut command = pillion(&["serve", "--config"]);
        command
            .arg(&file)
            .arg("--socket")
            .arg(directory.path().join("pillion.sock"));
        let output = command
            .env("PILLION__STORE__LOCATION", "memory")
            .output()
            .unwrap();
        assert!(!output.status.success());
        stderr(&output)
    };
    let declared = |rest: &str| {
        format!("\n[[composed_tools]]\nname = \"x\"\ndescription = \"A test\"\n{rest}\n")
    };
    for (toml, what) in [
        (
            declared(
                "steps = [{ name = \"a\", tool = \"b\", arguments = { x = { \"$from\" = \"/steps/c\" } } }]",
            ),
            "pillion.toml:2: composed_tools[0]: steps[0].arguments: '/steps/c': there is no step 'c'",
        ),
        (
            declared("steps = [{ name = \"a\", tool = \"x\" }]"),
            "in a cycle: x -> x",
        ),
        (
            declared("").replace("\"x\"", "\"calculator\"")
                + "steps = [{ name = \"a\", tool = \"b\" }]",
            "composed_tools[0].name: the tool name 'calculator' is used twice",
        ),
        (
            "composed_tools = 1".to_owned(),
            "composed_tools: expected an array of tables",
        ),
    ] {
        let error = rejected(&toml);
        assert!(error.contains(what), "{error}\n  is not\n{what}");
    }
}

#[test]
fn p_the_tool_of_a_step_may_be_registered_later() {
    let daemon = Daemon::with_config(
        "[[composed_tools]]\nname = \"x\"\ndescription = \"A test\"\nsteps = [{ name = \"a\", tool = \"not_yet\" }]",
    );
    let caller = Caller::default();
    let client = daemon.client();
    let response = client.execute("x", &json!({}), &caller).unwrap();
    let response = serde_json::to_value(response).unwrap();
    let expected = json!("Step 'a': Unknown tool: not_yet");
    assert_json!(response["result"]["error"], expected);
}
