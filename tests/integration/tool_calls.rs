//! The call log (F4): recorded calls survive every fault of the sidecar.

use pillion_testkit::{Postgres, PostgresRelay};

use crate::prelude::*;
use crate::program::{Guarded, pillion_path};

fn calls(daemon: &Daemon, arguments: &[&str]) -> Output {
    let socket = daemon.socket.to_str().unwrap();
    run(&[&["calls", "--socket", socket], arguments].concat(), &[])
}

fn listed(daemon: &Daemon, filter: &[&str]) -> Vec<Value> {
    let response = stdout_json(&calls(daemon, &[&["list", "--json"], filter].concat()));
    response["calls"].items().clone()
}

fn calculate(daemon: &Daemon, user: &str, arguments: &Value) {
    let caller = Caller::default().user(user);
    let client = daemon.client();
    client.execute("calculator", arguments, &caller).unwrap();
}

#[test]
fn f4_recorded_calls_survive_a_restart() {
    let mut daemon = Daemon::start();
    calculate(
        &daemon,
        "alice",
        &json!({"expression": "2 + 2", "api_key": "hunter2"}),
    );
    calculate(&daemon, "bob", &json!({"expression": "1 / 0"}));
    let daemon = daemon.restart();
    let found = listed(&daemon, &[]);
    let seen: Vec<_> = found
        .iter()
        .map(|call| (call["user"].text(), call["status"].text()))
        .collect();
    assert_eq!(seen, [("bob", "error"), ("alice", "success")]);
    let expected = json!({"expression": "2 + 2", "api_key": "[redacted]"});
    assert_eq!(found[1]["arguments"], expected);
    assert_eq!(found[1]["result"], json!("4"));
    assert_eq!(found[0]["errorCode"], json!("invalid_input"));
    assert_eq!(listed(&daemon, &["--user", "alice"]), found[1..]);
    assert_eq!(listed(&daemon, &["--status", "error"]), found[..1]);
    let id = found[0]["id"].text();
    let shown = stdout_json(&calls(&daemon, &["show", id]));
    assert_eq!(shown, found[0]);
    let table = stdout(&calls(&daemon, &["stats"]));
    let line = table.lines().nth(1).unwrap();
    assert!(
        line.contains("calculator") && line.contains("50.0 %"),
        "{table}"
    );
}

#[test]
fn f4_a_running_call_is_interrupted_after_a_crash() {
    let server = McpServer::echo();
    let config = server_entry("far", &server.url, "");
    let mut daemon = Daemon::with_config(&config);
    let client = daemon.client();
    client.fetch(route::LIST_TOOLS).unwrap();
    server.set_mood(Mood::Asleep);
    let caller = std::thread::spawn(move || {
        drop(client.execute("far_echo", &json!({}), &Caller::default()));
    });
    eventually("the call is recorded", || {
        listed(&daemon, &["--status", "running"]).len() == 1
    });
    daemon.kill();
    caller.join().unwrap();
    let daemon = daemon.again();
    let found = listed(&daemon, &[]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["status"], json!("interrupted"));
    assert_eq!(found[0]["serverName"], json!("far"));
}

/// Starts a sidecar whose files cannot grow beyond 2 MiB, as on a full disk.
fn on_a_small_disk(directory: &Path) -> Guarded {
    // Without the trap, SIGXFSZ would kill the process at the limit.
    let script = "trap '' XFSZ; ulimit -S -f 4096; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(pillion_path())
        .args(["serve", "--socket"])
        .arg(directory.join("s.sock"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("PILLION__STORE__LOCATION", directory.join("pillion.db"))
        .stderr(Stdio::null());
    Guarded::spawn(&mut command)
}

#[test]
fn f4_on_a_full_disk_calls_are_unavailable_and_no_acknowledged_call_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = on_a_small_disk(directory.path());
    let client = Client::builder(directory.path().join("s.sock")).build();
    eventually("the sidecar answers", || {
        client.fetch(route::HEALTH).is_ok()
    });
    let arguments = json!({"expression": "6 * 7", "note": "x".repeat(50_000)});
    let mut recorded = Vec::new();
    let call = || client.run_tool("calculator", &arguments, &Caller::default());
    let rejected = loop {
        let result = call();
        if !result.success {
            break result;
        }
        // A call whose tool ran when the disk was full reports that.
        if result.metadata.get("recorded") != Some(&json!(false)) {
            recorded.push(result.metadata["record_id"].text().to_owned());
        }
        assert!(recorded.len() < 1_000, "the disk is never full");
    };
    assert!(recorded.len() > 5, "{recorded:?}");
    assert_eq!(rejected.error_code.as_deref(), Some("unavailable"));
    let error = rejected.error.unwrap();
    assert_eq!(
        error,
        "Tool 'calculator' has not run: the call log cannot be written"
    );
    assert!(client.fetch(route::STATUS).unwrap().store_error.is_some());
    let ready = directory.path().join("s.sock").get("/readyz").json();
    assert!(ready["store_error"].is_string(), "{ready}");
    // Recorded calls can be read meanwhile.
    let shown = client.request(route::SHOW_TOOL_CALL, [&recorded[0]]).send();
    assert_contains!(shown.unwrap().text(), "\"success\"");
    // The limit is raised, as if the disk had space again.
    let roomy = Command::new("prlimit")
        .args(["--fsize=unlimited:unlimited", "--pid"])
        .arg(sidecar.id().to_string())
        .status();
    if roomy.is_ok_and(|status| status.success()) {
        eventually("calls run again", || call().success);
        assert_eq!(client.fetch(route::STATUS).unwrap().store_error, None);
    }
    drop(sidecar);
    let store = directory.path().join("pillion.db");
    let variable = ("PILLION__STORE__LOCATION", store.to_str().unwrap());
    let daemon = Daemon::with_variables("", &[variable]);
    let client = daemon.client();
    for id in recorded {
        let response = client.request(route::SHOW_TOOL_CALL, [&id]).send().unwrap();
        let shown = response.text();
        assert!(shown.contains("\"status\":\"success\""), "{id}: {shown}");
    }
}

#[test]
fn f4_an_error_of_the_server_finishes_the_record() {
    let server = McpServer::start(json!([{"name": "refused", "inputSchema": {"type": "object"}}]));
    let config = server_entry("far", &server.url, "");
    let daemon = Daemon::with_config(&config);
    let client = daemon.client();
    let outcome = client.run_tool("far_refused", &json!({}), &Caller::default());
    let text = "MCP Error -32600: Invalid Request";
    assert_eq!(outcome.error.as_deref(), Some(text));
    let found = listed(&daemon, &["--status", "error"]);
    let [call] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(call["error"], json!(text));
    assert_eq!(call["serverName"], json!("far"));
    // The ID of the list of servers also filters calls.
    let servers = daemon.get("/api/v1/servers").json();
    let id = servers["servers"][0]["id"].text();
    assert_eq!(call["serverId"], json!(id));
    for server in [id, "far"] {
        assert_eq!(listed(&daemon, &["--server", server]), found, "{server}");
        let path = format!("/api/v1/tool-calls/statistics?server={server}");
        let statistics = daemon.get(&path).json();
        let tool = &statistics["tools"][0];
        assert_json!(tool["serverId"], json!(id));
        assert_json!(tool["serverName"], "far");
    }
    assert!(listed(&daemon, &["--server", "near"]).is_empty());
    assert_eq!(call["status"], json!("error"));
    assert!(call["completedAt"].is_string(), "{call}");
    assert_eq!(call.get("result").unwrap_or(&Value::Null), &Value::Null);
}

#[test]
fn f4_while_postgres_is_silent_calls_finish_and_the_sidecar_stops() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    drop(postgres.database("calls"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let relay = PostgresRelay::to(&postgres);
    let location = relay.url("calls");
    let mut daemon = Daemon::with_variables(
        "[store]\nstatement_timeout_ms = 1000\n",
        &[("PILLION__STORE__LOCATION", &location)],
    );
    let timeout = Duration::from_secs(60);
    let client = Client::builder(&daemon.socket).timeout(timeout).build();
    let sum = json!({"expression": "6 * 7"});
    let call = || client.run_tool("calculator", &sum, &Caller::default());
    assert!(call().success);
    relay.go_silent();
    let rejected = call();
    assert_eq!(rejected.error_code.as_deref(), Some("unavailable"));
    relay.resume();
    eventually("calls run again", || call().success);
    relay.go_silent();
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
}

#[test]
fn f4_old_calls_are_removed_when_there_are_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("pillion.db");
    let store = [("PILLION__STORE__LOCATION", store.to_str().unwrap())];
    let daemon = Daemon::with_variables("", &store);
    for _ in 0..5 {
        calculate(&daemon, "alice", &json!({"expression": "2 + 2"}));
    }
    let all = listed(&daemon, &[]);
    drop(daemon);
    for (bound, left) in [
        ("max_calls = 3", 3),
        ("max_bytes = 60", 2),
        ("max_age_days = 30", 2),
    ] {
        let daemon = Daemon::with_variables(&format!("[call_log]\n{bound}\n"), &store);
        eventually(bound, || listed(&daemon, &[]).len() == left);
        assert_eq!(listed(&daemon, &[]), all[..left]);
    }
}

#[test]
fn i2_invalid_requests_are_rejected_with_a_code() {
    let daemon = Daemon::start();
    for (arguments, why) in [
        (&["show", "nothing"][..], "not_found"),
        (&["list", "--after", "nothing"], "invalid_input"),
        (&["list", "--from", "yesterday"], "invalid_input"),
    ] {
        let output = calls(&daemon, arguments);
        assert!(!output.status.success());
        assert_contains!(stderr(&output), why);
    }
}
