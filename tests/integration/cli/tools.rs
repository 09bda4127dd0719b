use crate::prelude::*;
use crate::terminal::Terminal;
use crate::workers::Worker;

/// Returns `pillion tools ...` with the daemon's socket in the environment.
fn tools(daemon: &Daemon, arguments: &[&str]) -> Output {
    let arguments = [&["tools"], arguments].concat();
    let socket = daemon.socket.to_str().unwrap();
    run(&arguments, &[("PILLION_SOCKET", socket)])
}

#[test]
fn hidden_characters_are_shown_and_piped_results_are_unchanged() {
    let daemon = Daemon::start();
    let hidden = "a\u{202e}b\u{200b}\u{9b}2Jc";
    let offered = json!([{"name": "say", "description": hidden, "inputSchema": {}}]);
    Worker::connect(&daemon.socket, &offered).serve(move |_| hidden.to_owned());
    let shown = r"a\u{202e}b\u{200b}\u{9b}2Jc";
    for arguments in [&["list"][..], &["show", "say"]] {
        let text = stdout(&tools(&daemon, arguments));
        assert!(text.contains(shown) && !text.contains(hidden), "{text:?}");
    }
    let expected = format!("{hidden}\n");
    assert_eq!(stdout(&tools(&daemon, &["call", "say"])), expected);
    let socket = daemon.socket.display();
    let terminal = Terminal::run(&format!("tools call say --socket {socket}"));
    let (ended_well, text) = terminal.end();
    let is_escaped = text.contains(shown) && !text.contains(hidden);
    assert!(ended_well && is_escaped, "{text:?}");
}

#[test]
fn list_prints_one_line_for_each_tool() {
    let daemon = Daemon::start();
    let output = tools(&daemon, &["list"]);
    assert!(output.status.success());
    let text = stdout(&output);
    let names: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    let builtins = [
        "calculator",
        "get_time",
        "roll_dice",
        "search_memory",
        "remember",
        "forget",
    ];
    assert_eq!(names, builtins);

    let output = tools(&daemon, &["list", "--json", "--category", "math"]);
    let list = stdout_json(&output);
    assert_eq!(list["total"], 1);
    let output = tools(&daemon, &["list", "--category", "none"]);
    assert_eq!(stdout(&output), "");
    let expected = "pillion: there are no tools in the category 'none'\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn i4_show_prints_one_tool_or_reports_that_it_is_unknown() {
    let daemon = Daemon::start();
    let text = stdout(&tools(&daemon, &["show", "calculator"]));
    assert_contains!(
        text,
        "name        calculator\n",
        "parameter   expression STRING, required: "
    );
    let json = stdout(&tools(&daemon, &["show", "calculator", "--json"]));
    let response: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(response["tool"]["category"], "math");
    let output = tools(&daemon, &["show", "nope"]);
    assert_ne!(output.status.code(), Some(0));
    assert_contains!(stderr(&output), "Tool 'nope' not found");
}

#[test]
fn schemas_are_json() {
    let daemon = Daemon::start();
    let schemas = stdout_json(&tools(&daemon, &["schemas"]));
    assert_eq!(schemas[0]["function"]["name"], "calculator");
}

#[test]
fn call_prints_the_result() {
    let daemon = Daemon::start();
    let arguments = r#"{"expression": "47.50 * 0.15"}"#;
    let output = tools(&daemon, &["call", "calculator", arguments]);
    assert_eq!(success(&output), "7.125\n");
    assert_eq!(stderr(&output), "");

    success(&tools(&daemon, &["call", "get_time"]));

    let sum = ["call", "calculator", r#"{"expression": "2 + 2"}"#, "--json"];
    let body = stdout_json(&tools(&daemon, &sum));
    assert_eq!(body["result"]["data"]["result"], 4);
}

#[test]
fn endless_arguments_are_not_read_to_the_end() {
    let daemon = Daemon::start();
    let mut call = pillion(&["tools", "call", "calculator", "-"]);
    let endless = std::fs::File::open("/dev/zero").unwrap();
    call.env("PILLION_SOCKET", &daemon.socket).stdin(endless);
    let text = "pillion: cannot read the arguments from standard input: the input is larger than 67108864 bytes\n";
    assert_eq!(failure(&call.output().unwrap(), 2), text);
}

#[test]
fn g3_a_call_that_needs_approval_prints_how_to_continue() {
    let daemon = Daemon::with_config("[approvals]\npolicy = \"always-ask\"\n");
    let error = failure(&tools(&daemon, &["call", "get_time"]), 1);
    let expected = "\npillion: approve the call with `pillion approvals approve ";
    assert_contains!(error, expected);
    assert_contains!(error, "--wait SECONDS");
}

#[test]
fn a_negative_number_is_a_value_of_its_option() {
    let output = run(&["tools", "call", "get_time", "--wait", "-1"], &[]);
    assert_contains!(failure(&output, 2), "-1 is not in 0..=86400");
}

#[test]
fn the_socket_is_not_required_where_a_variable_names_it() {
    let variable = [("PILLION_SOCKET", "/nowhere/s")];
    let usage = failure(&run(&["tools", "call"], &variable), 2);
    assert_contains!(usage, "pillion tools call <NAME> [KEY=VALUE | JSON]...\n");
    let output = run(&["status"], &variable);
    assert_contains!(stderr(&output), "listens on /nowhere/s");
}

#[test]
fn call_reads_the_arguments_from_standard_input() {
    let daemon = Daemon::start();
    let socket = daemon.socket.to_str().unwrap();
    let mut call = pillion(&["tools", "--socket", socket, "call", "calculator", "-"]);
    let output = run_with_input(&mut call, r#"{"expression": "2 ** 10"}"#);
    assert_eq!(stdout(&output), "1024\n");
}

#[test]
fn call_types_pairs_by_the_parameters_of_the_tool() {
    let daemon = Daemon::start();
    let parameters = json!({"properties": {
        "count": {"type": "integer"}, "text": {"type": "string"}, "tags": {"type": "array"},
        "any": {},
    }});
    let offered = json!([{"name": "show", "description": "Shows", "inputSchema": parameters}]);
    Worker::connect(&daemon.socket, &offered).serve(|call| call["arguments"].to_string());
    let pairs = ["count=7", "text=7", "tags=a", "tags=b", "any=true"];
    let output = tools(&daemon, &[&["call", "show"], &pairs[..]].concat());
    let expected = "{\"count\":7,\"text\":\"7\",\"tags\":[\"a\",\"b\"],\"any\":true}\n";
    assert_eq!(stdout(&output), expected);
    assert_eq!(
        failure(&tools(&daemon, &["call", "show", "count=x"]), 2),
        "pillion: 'count' must be an integer, not 'x'\n"
    );
    let output = tools(&daemon, &["call", "nope", "a=1"]);
    let start = "pillion: Tool 'nope' not found (not_found)";
    assert_starts_with!(stderr(&output), start);
}

#[test]
fn a_failed_call_exits_with_1_and_prints_the_reason() {
    let daemon = Daemon::start();
    let cases: [(&[&str], &str); 3] = [
        (
            &["call", "calculator", r#"{"expression": "1/0"}"#],
            "pillion: Calculation error: division by zero (",
        ),
        (
            &["call", "calculator"],
            "pillion: Missing required parameter: expression (invalid_input)\n",
        ),
        (
            &["call", "nope"],
            "pillion: Tool 'nope' not found (not_found); available: calculator, get_time, roll_dice, search_memory, remember, forget\n",
        ),
    ];
    for (arguments, expected) in cases {
        let output = tools(&daemon, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(stdout(&output), "");
        assert_starts_with!(stderr(&output), expected);
    }
    let misspelled = [
        (
            ["call", "calculator", "expresion=1"],
            "pillion: Missing required parameter: expression (there is no parameter 'expresion': \
             did you mean 'expression'?) (invalid_input)\n",
        ),
        (
            ["call", "calculater", "{}"],
            "pillion: Tool 'calculater' not found: did you mean 'calculator'? (not_found); \
             available: ",
        ),
    ];
    for (arguments, expected) in misspelled {
        assert_starts_with!(stderr(&tools(&daemon, &arguments)), expected);
    }
    for (wrong, expected) in [
        ("{", "the arguments are not a JSON object: EOF"),
        (
            "[1]",
            "the arguments must be a JSON object, not another JSON value",
        ),
        ("1+1", "'1+1' is neither KEY=VALUE nor a JSON object"),
        (
            "@/nowhere/a.json",
            "cannot read the arguments in /nowhere/a.json",
        ),
    ] {
        let error = failure(&tools(&daemon, &["call", "calculator", wrong]), 2);
        let expected = format!("pillion: {expected}");
        assert_starts_with!(error, &expected);
    }
    let output = tools(&daemon, &["call", "nope", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let body = stdout_json(&output);
    assert_eq!(body["error_code"], "not_found");
}

#[test]
fn without_a_sidecar_the_path_is_named() {
    let output = run(&["tools", "--socket", "/nowhere/pillion.sock", "list"], &[]);
    let text = "pillion: The sidecar is not running: no process listens on /nowhere/pillion.sock \
                (unavailable); start it with `pillion serve`, or set its socket with --socket or \
                PILLION_SOCKET\n";
    assert_eq!(failure(&output, 1), text);
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let daemon = Daemon::start();
    let socket = daemon.socket.to_str().unwrap();
    let mut child = pillion(&["tools", "--socket", socket, "schemas"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    success(&child.wait_with_output().unwrap());
}
