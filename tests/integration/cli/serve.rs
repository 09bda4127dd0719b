use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::prelude::*;

#[test]
fn b3_startup_logs_the_number_of_tools() {
    let daemon = Daemon::start();
    let listed = daemon.get("/api/v1/tools/").json();
    assert_json!(listed["total"], 6);
    assert_contains!(daemon.log(), "\"message\":\"Initialized 6 tools\"");
}

#[test]
fn m2_foreign_level_names_map_to_the_nearest_level_and_other_words_are_rejected() {
    let daemon = Daemon::with_variables("[tools.calculater]\n", &[("LOG_LEVEL", "notice")]);
    assert_contains!(daemon.log(), "did you mean 'calculator'?", "Listening on ");

    let rejected = run(&["check"], &[("LOG_LEVEL", "loud")]);
    assert_eq!(rejected.status.code(), Some(2));
    let expected =
        "pillion: environment variable LOG_LEVEL: log.filter: invalid log level 'loud': ";
    assert!(stderr(&rejected).starts_with(expected), "{rejected:?}");
}

#[test]
fn e9_a_sidecar_is_ready_before_it_contacts_any_server() {
    let toml = "[[mcp_servers]]\nlabel = \"far\"\nurl = \"http://127.0.0.1:9/mcp\"\n";
    let daemon = Daemon::with_config(toml);
    let status = daemon.run(&["status"]);
    let expected = ": ready; discovery of MCP tools not finished, up ";
    assert_contains!(stdout(&status), expected);
}

#[test]
fn l1_check_reports_a_vault_that_serve_would_reject() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o755)).unwrap();
    let key = key.to_str().unwrap();
    let error = failure(&run(&["check"], &[("PILLION__VAULT__KEY_FILE", key)]), 2);
    assert_contains!(error, "is accessible to other users (mode 755)");
}

#[test]
fn m1_each_log_line_is_json_with_request_and_tool() {
    let daemon = Daemon::with_variables("", &[("LOG_LEVEL", "debug")]);
    let secret = r#"{"expression": "40404 + 1"}"#;
    let headers = "x-request-id: request-7\r\n";
    daemon.post_with(
        "/api/v1/tools/execute/calculator",
        headers,
        secret.as_bytes(),
    );
    let log = daemon.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let finished = lines
        .iter()
        .find(|line| line["message"] == "Request finished")
        .unwrap();
    assert_eq!(finished["spans"][0]["request_id"], "request-7");
    assert_eq!(finished["spans"][0]["tool_name"], "calculator");
    assert_eq!(finished["status"], 200);
    assert_eq!(finished["route"], "/api/v1/tools/execute/{tool_name}");
    assert!(finished["duration_ms"].is_u64());
    assert!(!log.contains("40404"), "arguments are not logged: {log}");
}

#[test]
fn m1_every_log_line_of_a_call_has_request_tool_server_and_user() {
    let server = McpServer::echo();
    let toml = detected_entry("far", &server.url, "");
    let daemon = Daemon::with_variables(&toml, &[("LOG_LEVEL", "debug")]);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let headers =
        format!("x-request-id: request-8\r\nx-pillion-user: alice\r\ntraceparent: {parent}\r\n");
    let path = "/api/v1/tools/execute/far_echo";
    daemon.post_with(path, &headers, b"{}");
    // The server receives the trace of the request.
    assert_eq!(server.last_meta()["traceparent"], parent);
    let log = daemon.log();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls: Vec<_> = lines
        .filter(|line| line["spans"][1]["name"] == "call")
        .collect();
    // The messages include the log lines of the tool call and of its end.
    let messages: Vec<_> = calls
        .iter()
        .filter_map(|line| line["message"].as_str())
        .collect();
    assert!(messages.contains(&"Tool `far_echo` succeeded"), "{log}");
    assert!(messages.len() > 1, "{log}");
    for line in &calls {
        assert_json!(line["spans"][1]["tool.name"], "far_echo");
        assert_eq!(line["spans"][1]["server.label"], "far");
        assert_eq!(line["spans"][1]["user"], "alice");
        assert_eq!(line["spans"][0]["request_id"], "request-8");
        assert_eq!(line["spans"][0]["trace_id"], trace);
    }
}

#[test]
fn logs_can_be_text() {
    let daemon = Daemon::with_config("[log]\nformat = \"text\"");
    assert!(serde_json::from_str::<Value>(daemon.log().lines().next().unwrap()).is_err());
}

#[test]
fn a_second_sidecar_is_rejected() {
    let daemon = Daemon::start();
    let output = daemon.run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    let message = format!(
        "pillion: another process already serves {}",
        daemon.socket.display()
    );
    assert_contains!(stderr(&output), &message);
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn a_bad_configuration_ends_with_2_and_one_line() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "[executor]\ntimeout_ms = \"soon\"").unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&["serve", "--config", path], &[]);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!(
        "pillion: {path}:2: executor.timeout_ms: invalid type: string \"soon\", expected whole milliseconds from 1 to 86400000\n"
    );
    assert_eq!(stderr(&output), expected);

    let output = run(&["serve"], &[("PILLION__HTTP__MAX_BODY_BYTES", "many")]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "pillion: environment variable PILLION__HTTP__MAX_BODY_BYTES: http.max_body_bytes: invalid type: string \"many\", expected a whole number from 1\n";
    assert_eq!(stderr(&output), expected);

    let error = failure(
        &run(&["serve"], &[("PILLION_CONFIG", "/nowhere/pillion.toml")]),
        2,
    );
    assert_starts_with!(error, "pillion: cannot read /nowhere/pillion.toml: ");
}

#[test]
fn the_socket_comes_from_the_option_the_variable_or_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let [option, variable, file] =
        ["option", "variable", "file"].map(|name| directory.path().join(name));
    let config = directory.path().join("pillion.toml");
    std::fs::write(&config, format!("[socket]\npath = {file:?}")).unwrap();
    for expected in [&file, &variable, &option] {
        let mut command = program::pillion(&["serve", "--config"]);
        command.arg(&config);
        // The socket is not the machine's default one.
        command.env("PILLION__STORE__LOCATION", "memory");
        if expected != &file {
            command.env("PILLION_SOCKET", &variable);
        }
        if expected == &option {
            command.arg("--socket").arg(&option);
        }
        let _child = program::Guarded::spawn(command.stderr(std::process::Stdio::null()));
        let client = pillion_client::Client::new(expected);
        program::eventually("it listens there", || client.fetch(route::HEALTH).is_ok());
    }
}

#[test]
fn n1_the_calculators_timeout_can_be_set() {
    // Another call holds the only permit, so the calculator's call times out before it runs.
    let server = McpServer::echo();
    let toml = detected_entry("far", &server.url, "");
    let variables = [
        ("MCP_CALCULATOR_TIMEOUT", "0.25"),
        ("MCP_MAX_CONCURRENT_TOOLS", "1"),
    ];
    let daemon = Daemon::with_variables(&toml, &variables);
    let execute = |socket: &Path, tool: &str, body: &str| {
        let target = format!("/api/v1/tools/execute/{tool}");
        socket.post(&target, body.as_bytes())
    };
    daemon.get("/api/v1/tools/");
    server.set_mood(Mood::Asleep);
    let before = server.count("tools/call");
    let socket = daemon.socket.clone();
    let sleeps = std::thread::spawn(move || execute(&socket, "far_echo", "{}").status);
    program::eventually("the place is taken", || server.count("tools/call") > before);
    let response = execute(&daemon.socket, "calculator", r#"{"expression": "6 * 7"}"#).json();
    let result = &response["result"];
    assert_json!(result["error_code"], "unavailable");
    let error = result["error"].text();
    let seconds = error.strip_prefix("Tool 'calculator' did not start within ");
    let (seconds, _) = seconds.unwrap().split_once("s:").unwrap();
    let seconds: f64 = seconds.parse().unwrap();
    assert!(seconds <= 0.25, "{error}");
    drop(daemon);
    sleeps.join().unwrap_err();

    assert_contains!(
        failure(&run(&["serve"], &[("MCP_CALCULATOR_TIMEOUT", "never")]), 2),
        "MCP_CALCULATOR_TIMEOUT"
    );
}

#[test]
fn the_program_prints_its_version() {
    let output = run(&["--version"], &[]);
    let expected = format!("pillion {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout(&output), expected);
    let output = run(&["serve", "--nonsense"], &[]);
    assert_eq!(output.status.code(), Some(2));
}
