//! If a sidecar runs, the process forwards messages between the client and the sidecar.

use std::os::unix::process::CommandExt;

use pillion_testkit::root_or_skip;

use super::*;
use crate::workers::{self, Worker};

/// The user of the program if the tests run as root.
const UNPRIVILEGED_UID: u32 = 65_534;

fn client(daemon: &Daemon) -> Client {
    // The path of the store cannot exist, because a bridge needs no store.
    Client::for_sidecar(&daemon.socket, Path::new("/dev/null/none"), &[])
}

/// Returns a client after its handshake.
fn initialized(daemon: &Daemon) -> Client {
    let mut client = client(daemon);
    client.initialize(&json!({}));
    client
}

/// Adds the server as `memos`.
fn add_memos(daemon: &Daemon, server: &McpServer) {
    let body = json!({"name": "memos", "url": server.url}).to_string();
    assert_eq!(daemon.post("/api/v1/servers", body).status, 201);
}

fn stateless(params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn f1_f4_clients_use_stored_servers_and_workers_and_their_calls_are_recorded() {
    let daemon = Daemon::start();
    let mut client = initialized(&daemon);
    assert!(!client.tools().contains(&"echo".to_owned()));
    // Servers that are added later are available, too.
    let server = McpServer::echo();
    add_memos(&daemon, &server);
    Worker::connect(&daemon.socket, &workers::greet()).serve(|_| "Hello".to_owned());
    let tools = client.tools();
    for tool in ["calculator", "echo", "greet"] {
        assert!(tools.contains(&tool.to_owned()), "{tools:?}");
    }
    assert_eq!(text(&client.call("echo", &json!({}))), "called \"echo\"");
    let greet_response = client.call("greet", &json!({"name": "Ann"}));
    assert_eq!(text(&greet_response), "Hello");
    // A request of the other protocol era needs no handshake, and an existing handshake does not
    // disturb it.
    let mut modern = self::client(&daemon);
    let params = json!({"name": "greet", "arguments": {"name": "Ann"}});
    let called = modern.request("tools/call", &stateless(&params));
    assert_json!(called["result"]["resultType"], "complete");
    let recorded = daemon.recorded("");
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    for call in &recorded {
        assert_json!(call["status"], "success");
        assert_json!(call["caller"], "mcp");
    }
    assert!(client.end().is_empty());
}

#[test]
fn real_clients_of_both_protocol_eras_list_and_call_a_stored_servers_tool() {
    let daemon = Daemon::start();
    let server = McpServer::echo();
    add_memos(&daemon, &server);
    let program = pillion_path().to_str().unwrap();
    let socket = daemon.socket.to_str().unwrap();
    let served = [program, "mcp-stdio", "--socket", socket];
    let run = crate::routes::mcp::clients::run;
    if let Some(printed) = run("client-python", &[&["--stdio"], &served[..]].concat()) {
        for client in ["mcp stdio auto: ", "mcp stdio legacy: "] {
            let line = printed.lines().find_map(|line| line.strip_prefix(client));
            assert!(line.unwrap().contains("echo"), "{printed}");
        }
        assert_contains!(printed, "fastmcp stdio: 7 tools");
    }
    for era in ["legacy", "auto", "modern"] {
        let call = ["--method", "tools/call", "--tool-name", "echo"];
        let arguments = [&["--protocol-era", era], &call[..], &["--"], &served[..]].concat();
        if let Some(printed) = run("client-inspector", &arguments) {
            assert!(printed.contains(r#"called \"echo\""#), "{era}: {printed}");
        }
    }
}

#[test]
fn g3_progress_questions_answers_and_cancellation_are_forwarded() {
    let daemon = Daemon::with_config("[tools.calculator]\nrequire_approval = \"always\"\n");
    let mut worker = Worker::connect(&daemon.socket, &workers::greet());
    let mut client = client(&daemon);
    client.initialize(&json!({"elicitation": {}}));
    let id = client.send_call("calculator", &json!({"expression": "6*7"}));
    let question = client.receive();
    assert_json!(question["method"], "elicitation/create");
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"decision": "approve"}}}));
    assert_eq!(text(&client.response_to(id)), "42");
    let greet =
        json!({"name": "greet", "arguments": {"name": "Ann"}, "_meta": {"progressToken": "p"}});
    let id = client.send_request("tools/call", &greet);
    let call = worker.read().unwrap();
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": call["id"], "progress": 1, "total": 2}});
    worker.write(&notice);
    let progress = client.receive();
    assert_json!(progress["params"]["progressToken"], "p");
    client.send(&cancellation(id));
    assert_eq!(worker.read().unwrap()["method"], "notifications/cancelled");
    worker.respond(&call, &json!({"content": []}));
    // No request is pending any more.
    assert!(client.end().is_empty());
}

#[test]
fn after_a_kill_pending_requests_fail_and_the_client_continues_with_the_next_sidecar() {
    let mut daemon = Daemon::start();
    let mut worker = Worker::connect(&daemon.socket, &workers::greet());
    let mut client = initialized(&daemon);
    let id = client.send_call("greet", &json!({"name": "Ann"}));
    worker.read().unwrap();
    daemon.kill();
    let failed = client.response_to(id);
    assert_json!(failed["error"]["code"], -32000);
    let reported = failed["error"]["message"].text();
    assert_starts_with!(reported, "The sidecar stopped before sending a response");
    // The request is sent while no sidecar runs; the next sidecar answers in the same session.
    let id = client.send_request("tools/list", &json!({}));
    let daemon = daemon.again();
    let changed = client.receive_until(|message| message.get("method").is_some());
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    let listed = client.response_to(id);
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let called = client.call("calculator", &json!({"expression": "6*7"}));
    assert_eq!(text(&called), "42");
    let recorded = daemon.recorded("?tool=greet");
    assert_eq!(recorded[0]["status"], "interrupted", "{recorded:?}");
    let recorded = daemon.recorded("?tool=calculator");
    assert_eq!(recorded[0]["status"], "success", "{recorded:?}");
    client.end();
}

#[test]
fn without_a_new_sidecar_requests_fail_and_are_not_lost() {
    let mut daemon = Daemon::start();
    let mut client = initialized(&daemon);
    daemon.kill();
    let rejected = client.request("tools/list", &json!({}));
    assert_json!(rejected["error"]["code"], -32000);
    let expected = "no sidecar listens on ";
    assert_starts_with!(rejected["error"]["message"].text(), expected);
    let daemon = daemon.again();
    eventually("there is a sidecar again", || {
        client.request("ping", &json!({})).get("result").is_some()
    });
    drop(daemon);
}

#[test]
fn a_takeover_loses_no_call_and_later_calls_go_to_the_successor() {
    let mut daemon = Daemon::start();
    let mut worker = Worker::connect(&daemon.socket, &workers::greet());
    let mut client = initialized(&daemon);
    let slow = client.send_call("greet", &json!({"name": "Ann"}));
    let call = worker.read().unwrap();
    let next = daemon.successor();
    // The next sidecar has no worker, which distinguishes both.
    let mut tools = client.tools();
    while tools.contains(&"greet".to_owned()) {
        tools = client.tools();
    }
    assert!(tools.contains(&"calculator".to_owned()), "{tools:?}");
    worker.respond_text(&call, "late");
    assert_eq!(text(&client.response_to(slow)), "late");
    assert!(daemon.wait().success());
    let called = client.call("calculator", &json!({"expression": "6*7"}));
    assert_eq!(text(&called), "42");
    let recorded = next.recorded("?tool=greet");
    assert_eq!(recorded[0]["status"], "success", "{recorded:?}");
    client.end();
}

#[test]
fn a_disconnected_client_leaves_nothing_behind() {
    let daemon = Daemon::start();
    for is_killed in [false, true] {
        let mut worker = Worker::connect(&daemon.socket, &workers::greet());
        let mut client = initialized(&daemon);
        let id = client.send_call("greet", &json!({"name": "Ann"}));
        let call = worker.read().unwrap();
        if is_killed {
            client.kill();
            // The call is cancelled when its client exits.
            assert_eq!(worker.read().unwrap()["method"], "notifications/cancelled");
        } else {
            // Requests that the client sent before closing its input are still answered.
            let answering = thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                worker.respond(&call, &json!({"content": []}));
                worker
            });
            let last = client.end();
            assert_eq!(last[0]["id"], id, "{last:?}");
            drop(answering.join());
        }
    }
    eventually("both calls are recorded", || {
        let ended = daemon.recorded("?tool=greet");
        let mut statuses: Vec<_> = ended.iter().map(|call| call["status"].as_str()).collect();
        statuses.sort_unstable();
        statuses == [Some("cancelled"), Some("success")]
    });
}

#[test]
fn h2_the_model_has_to_be_configured_in_the_sidecar() {
    let toml = "[[models]]\nid = \"small\"\n\
                tools = { function_calling = true, mcp = true, enabled_tools = [\"calculator\"] }\n";
    let daemon = Daemon::with_config(toml);
    let mut client =
        Client::for_sidecar(&daemon.socket, Path::new("memory"), &["--model", "small"]);
    client.initialize(&json!({}));
    assert_eq!(client.tools(), ["calculator"]);
    client.end();
    let reported = failure(
        &pillion(&["mcp-stdio", "--model", "nope", "--socket"])
            .arg(&daemon.socket)
            .stdin(Stdio::null())
            .output()
            .unwrap(),
        2,
    );
    assert_ends_with!(reported, "rejected the connection: Unknown model: nope\n");
}

#[test]
fn l3_a_socket_without_access_for_the_user_is_an_error_without_fallback() {
    if !root_or_skip() {
        return;
    }
    let daemon = Daemon::start();
    let program = tempfile::tempdir().unwrap();
    let copy = program_for_everybody(program.path());
    let try_to = |arguments: &[&str]| {
        Command::new(&copy)
            .args(arguments)
            .arg("--socket")
            .arg(&daemon.socket)
            .env_clear()
            .stdin(Stdio::null())
            .uid(UNPRIVILEGED_UID)
            .env(MEMORY.0, MEMORY.1)
            .output()
            .unwrap()
    };
    let output = try_to(&["mcp-stdio"]);
    let expected = "permission denied for the sidecar's socket";
    assert_contains!(failure(&output, 1), expected);
    assert!(output.stdout.is_empty());
    let status = || {
        let reported = stderr(&try_to(&["status"]));
        assert_contains!(reported, "Permission denied");
        reported
    };
    assert_contains!(
        status(),
        "a directory on the path does not give this user search"
    );
    open_to_everybody(daemon.directory());
    open_to_everybody(daemon.socket.parent().unwrap());
    assert_contains!(status(), "socket.group");
    // A client may still run standalone.
    assert!(try_to(&["mcp-stdio", "--standalone"]).status.success());
}

#[test]
fn l3_a_user_without_a_rule_gets_an_error_that_names_the_rules() {
    if !root_or_skip() {
        return;
    }
    let daemon = Daemon::with_config("[socket]\nmode = \"0666\"\nallow_uids = [1]\n");
    open_to_everybody(daemon.directory());
    let program = tempfile::tempdir().unwrap();
    let copy = program_for_everybody(program.path());
    let reported = failure(
        &Command::new(&copy)
            .args(["mcp-stdio", "--socket"])
            .arg(&daemon.socket)
            .env_clear()
            .stdin(Stdio::null())
            .uid(UNPRIVILEGED_UID)
            .output()
            .unwrap(),
        1,
    );
    let expected = "rejected the connection: Permission denied: no rule of socket.allow_uids";
    assert_contains!(reported, expected);
    assert_contains!(reported, "allows user 65534 of group");
}

fn open_to_everybody(path: &Path) {
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, everybody).unwrap();
}

/// Returns a copy of the program in a directory, readable for every user.
fn program_for_everybody(directory: &Path) -> PathBuf {
    let copy = directory.join("pillion");
    // Another process copies the file: other tests' children would inherit a descriptor that is
    // open for writing here, and the program would be busy.
    let copied = Command::new("cp").arg(pillion_path()).arg(&copy).status();
    assert!(copied.unwrap().success());
    open_to_everybody(directory);
    copy
}

/// A script that sends the head of a request, prints the first line of the response, and then waits
/// until the connection is closed.
const CONNECTS: &str = "\
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode())
print(s.recv(65536).split(b'\\r\\n')[0].decode(), flush=True)
while s.recv(65536):
    pass
print('over', flush=True)
";

#[test]
fn l3_a_user_whose_rule_is_removed_is_disconnected() {
    if !root_or_skip() {
        return;
    }
    let rules =
        |user: u32| format!("[socket]\nmode = \"0666\"\nallow_uids = [{user}]\n[call_log]\n");
    let daemon = Daemon::with_config(&rules(UNPRIVILEGED_UID));
    open_to_everybody(daemon.directory());
    let program = tempfile::tempdir().unwrap();
    let copy = program_for_everybody(program.path());
    let mut command = Command::new(copy);
    command.args(["mcp-stdio", "--socket"]).arg(&daemon.socket);
    let mut bridge = Client::start(command.env_clear().uid(UNPRIVILEGED_UID));
    bridge.initialize(&json!({}));
    assert!(bridge.tools().contains(&"calculator".to_owned()));
    let connect = |request: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", CONNECTS]).arg(&daemon.socket);
        command
            .arg(request)
            .uid(UNPRIVILEGED_UID)
            .stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        (child, lines, first)
    };
    let tools = json!({"name": "other", "tools": workers::greet()}).to_string();
    let worker = connect(&format!(
        "POST /api/v1/workers HTTP/1.1\r\nHost: pillion\r\nConnection: Upgrade\r\n\
         Upgrade: pillion-worker\r\nContent-Length: {}\r\n\r\n{tools}",
        tools.len()
    ));
    let idle = connect("GET /healthz HTTP/1.1\r\nHost: pillion\r\n\r\n");
    assert_starts_with!(worker.2, "HTTP/1.1 101");
    assert_starts_with!(idle.2, "HTTP/1.1 200");
    // The running call finishes.
    let tools = json!([{"name": "slow", "description": "Slow", "inputSchema": {"type": "object"}}]);
    let mut slow = Worker::connect(&daemon.socket, &tools);
    let running = bridge.send_call("slow", &json!({}));
    let call = slow.read().unwrap();

    reload(&daemon, &rules(1));
    for (mut child, mut lines, _) in [worker, idle] {
        assert_eq!(lines.next().unwrap().unwrap(), "over");
        assert!(child.wait().unwrap().success());
    }
    slow.respond_text(&call, "done");
    assert_eq!(text(&bridge.response_to(running)), "done");
    let rejected = bridge.request("tools/list", &json!({}));
    let reason = rejected["error"]["message"].text();
    assert!(
        reason.contains("no rule of socket.allow_uids"),
        "{rejected}"
    );
    assert_contains!(daemon.log(), "the socket rules no longer allow its process");
}
