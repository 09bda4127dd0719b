//! Server-sent events of the sidecar (F3 to F5).

use crate::event_stream::EventStream;
use crate::prelude::*;

fn calculate(socket: &Path) {
    let caller = Caller::default().user("alice");
    let client = Client::new(socket);
    client
        .execute("calculator", &json!({"expression": "1"}), &caller)
        .unwrap();
}

#[test]
fn f4_start_and_end_of_calls_are_events() {
    let daemon = Daemon::start();
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "");
    calculate(&daemon.socket);
    let begun = listener.expect("call.pending").data;
    assert_eq!(begun["tool"], "calculator");
    assert_eq!(begun["user"], "alice");
    assert_eq!(begun["user_is_verified"], true);
    assert_eq!(begun["status"], "pending");
    let running = listener.expect("call.started").data;
    assert_eq!(running["call_id"], begun["call_id"]);
    assert_eq!(running["status"], "running");
    let ended = listener.expect("call.ended").data;
    assert_eq!(ended["call_id"], begun["call_id"]);
    assert_eq!(ended["record_id"], running["record_id"]);
    assert_eq!(ended["success"], true);
    assert_eq!(ended["status"], "success");
    assert!(ended["record_id"].is_string(), "{ended}");
    assert!(ended["at"].text() >= begun["at"].text());
    // Events contain neither arguments nor results.
    assert_lacks!(format!("{begun}{ended}"), "expression");
}

#[test]
fn f4_each_status_of_a_call_is_an_event() {
    let daemon = Daemon::with_config(
        "[tools.calculator]\nrequire_approval = \"always\"\n[tools.roll_dice]\nrate_limit = { per_minute = 1 }\n",
    );
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "?types=call");
    let mut statuses = |tool: &str, body: &str| {
        daemon.post(&format!("/api/v1/tools/execute/{tool}"), body);
        let mut statuses = Vec::new();
        loop {
            let event = listener.next().unwrap();
            statuses.push(event.data["status"].text().to_owned());
            if event.kind == "call.ended" {
                return statuses;
            }
        }
    };
    let (roll, sum) = (r#"{"notation": "1d6"}"#, r#"{"expression": "1"}"#);
    assert_eq!(
        statuses("roll_dice", roll),
        ["pending", "running", "success"]
    );
    // The tools of these calls do not run.
    assert_eq!(statuses("roll_dice", roll), ["pending", "error"]);
    assert_eq!(statuses("roll_dice", "{}"), ["pending", "error"]);
    assert_eq!(statuses("calculator", sum), ["pending", "pending"]);
    let approvals = daemon.get("/api/v1/approvals/").json();
    let id = approvals["approvals"][0]["id"].text().to_owned();
    daemon.post(&format!("/api/v1/approvals/{id}/approve"), "");
    assert_eq!(
        statuses("calculator", sum),
        ["pending", "running", "success"]
    );
    assert_eq!(
        statuses("calculator", r#"{"expression": "1 +"}"#),
        ["pending", "pending"]
    );
}

#[test]
fn f4_the_event_of_a_cancelled_call_has_its_id() {
    let server = McpServer::echo();
    let config = detected_entry("far", &server.url, "");
    let daemon = Daemon::with_config(&config);
    daemon.tools();
    server.set_mood(Mood::Asleep);
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "?types=call");
    let target = "/api/v1/tools/execute/far_echo";
    let caller = daemon.begin("POST", target, "", "{}");
    let begun = listener.expect("call.pending").data;
    listener.expect("call.started");
    drop(caller);
    let ended = listener.expect("call.ended").data;
    assert_eq!(ended["call_id"], begun["call_id"]);
    assert_eq!(ended["tool"], "far_echo");
    assert_eq!(ended["error_code"], "cancelled");
    eventually("the call log has the outcome", || {
        daemon.record(&ended["record_id"])["status"] == "cancelled"
    });
}

#[test]
fn f3_changes_of_servers_and_their_tools_are_events() {
    let echo = json!({"name": "echo", "inputSchema": {"type": "object"}});
    let server = McpServer::start(json!([echo]));
    let config = format!(
        "[mcp]\nretry_after_ms = 50\nrefresh_after_ms = 50\n[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n",
        server.url
    );
    let daemon = Daemon::with_config(&config);
    let client = daemon.client();
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "?types=server,tools");
    client.fetch(route::LIST_TOOLS).unwrap();
    for status in ["connecting", "connected"] {
        let received = listener.expect("server.status").data;
        assert_eq!(
            (&received["server"], &received["status"]),
            (&json!("far"), &json!(status))
        );
    }
    let expected = json!(["far_echo"]);
    assert_eq!(listener.expect("tools.changed").data["added"], expected);
    let mut changed = echo;
    changed["description"] = json!("Another");
    server.set_tools(json!([changed, {"name": "new", "inputSchema": {"type": "object"}}]));
    let list_requests = server.count("tools/list");
    eventually("the server is listed again", || {
        client.fetch(route::LIST_TOOLS).unwrap();
        server.count("tools/list") > list_requests
    });
    let received = listener.expect("tools.changed").data;
    assert_eq!(received["added"], json!(["far_new"]));
    assert_eq!(received["changed"], json!(["far_echo"]));
    server.set_mood(Mood::Ill);
    let list_requests = server.count("tools/list");
    eventually("the server is listed again", || {
        client.fetch(route::LIST_TOOLS).unwrap();
        server.count("tools/list") > list_requests
    });
    let received = listener.expect("server.status").data;
    assert_eq!(received["status"], "error");
    assert_contains!(received["error"].text(), "500");
}

#[test]
fn g3_approvals_and_reloads_are_events() {
    let daemon = Daemon::with_config("[approvals]\npolicy = \"always-ask\"\n");
    let (mut listener, _) =
        EventStream::from_now(&daemon.socket, "?types=approval,configuration.reloaded");
    calculate(&daemon.socket);
    let approval = listener.expect("approval.requested").data;
    assert_eq!(approval["status"], "pending");
    let id = approval["id"].text();
    daemon.post(
        &format!("/api/v1/approvals/{id}/deny"),
        "{\"reason\": \"no\"}",
    );
    let decided = listener.expect("approval.decided").data;
    assert_eq!(decided["id"], id);
    assert_eq!(decided["reason"], "no");
    assert_starts_with!(decided["decided_by"].text(), "uid:");
    let file = daemon.config_path();
    std::fs::write(&file, "nonsense").unwrap();
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    let received = listener.expect("configuration.reloaded").data;
    assert_eq!(received["success"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_request_that_ran_a_chat_is_an_event() {
    let llm = FakeLlm::start([LlmResponse::text("Hello.")]).await;
    let daemon = Daemon::with_config(&crate::chat::config(&llm, ""));
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "?types=chat");
    let body = json!({"message": "Hi", "user": "ada"});
    let reply = daemon.socket.post("/api/v1/chat/", body.to_string());
    let response = reply.expect(200);
    let stopped = listener.expect("chat.stopped").data;
    assert_eq!(stopped["id"], response["id"]);
    assert_eq!(stopped["status"], "answered");
    assert_eq!(stopped["user"], "ada");
}

#[test]
fn a_listener_resumes_after_its_last_event_id() {
    let daemon = Daemon::start();
    let (mut listener, start) = EventStream::from_now(&daemon.socket, "");
    calculate(&daemon.socket);
    let first = listener.expect("call.pending");
    drop(listener);
    calculate(&daemon.socket);
    let mut listener = EventStream::after(&daemon.socket, &first.id);
    listener.expect("call.started");
    let ended = listener.expect("call.ended");
    assert_eq!(ended.data["call_id"], first.data["call_id"]);
    assert_ne!(
        listener.expect("call.pending").data["call_id"],
        first.data["call_id"]
    );
    // The position is valid also for a listener that had received no event.
    let mut listener = EventStream::after(&daemon.socket, &start);
    assert_eq!(listener.expect("call.pending").id, first.id);
}

#[test]
fn lost_events_are_reported() {
    let mut daemon = Daemon::start();
    let (_listener, start) = EventStream::from_now(&daemon.socket, "");
    let daemon = daemon.restart();
    let mut listener = EventStream::after(&daemon.socket, &start);
    assert_eq!(listener.expect("reset").data["reason"], "unknown");
    calculate(&daemon.socket);
    listener.expect("call.pending");
}

#[test]
fn f5_a_listener_that_never_reads_is_disconnected_and_delays_no_other() {
    let daemon = Daemon::with_config("[http]\nwrite_timeout_ms = 300\n");
    let _silent = daemon.begin("GET", "/api/v1/events", "", "");
    let client = daemon.client();
    let caller = Caller::default().user("u".repeat(256));
    let call = || {
        client
            .execute("calculator", &json!({"expression": "1"}), &caller)
            .unwrap()
    };
    let connections = || client.fetch(route::STATUS).unwrap().connections;
    eventually("both are there", || connections() == 2);
    eventually("the silent one is cut off", || {
        for _ in 0..50 {
            assert!(call().is_success());
        }
        connections() == 1
    });
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "");
    call();
    listener.expect("call.pending");
}

#[test]
fn unknown_types_are_rejected_and_streams_end_with_the_sidecar() {
    let mut daemon = Daemon::start();
    for query in ["?types=call,nonsense", "?types=call.begun"] {
        assert_eq!(daemon.get(&format!("/api/v1/events{query}")).status, 400);
    }
    let (mut listener, _) = EventStream::from_now(&daemon.socket, "");
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(listener.next().is_none());
    assert!(daemon.wait().success());
}

#[test]
fn the_command_line_prints_events() {
    let daemon = Daemon::start();
    let socket = daemon.socket.to_str().unwrap();
    let mut child = pillion(&[
        "events",
        "--socket",
        socket,
        "--types",
        "call.ended",
        "--json",
    ])
    .stdout(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_contains!(line, "\"type\":\"ready\"");
    calculate(&daemon.socket);
    line.clear();
    lines.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["type"], "call.ended");
    child.kill().unwrap();
    child.wait().unwrap();
}
