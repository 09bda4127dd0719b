//! Processes that offer tools over the socket. This worker is minimal; the tests of PHP cover PHP's
//! worker.

use std::thread::JoinHandle;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::event_stream::EventStream;
use crate::json_lines::JsonLines;
use crate::prelude::*;

/// A worker's end of the connection.
pub struct Worker(JsonLines);

impl Worker {
    /// Connects and registers these tools. Returns the head and body of the response if the
    /// connection is rejected.
    fn try_connect(socket: &Path, registration: &Value) -> Result<Self, (String, Value)> {
        let path = "/api/v1/workers";
        JsonLines::open(socket, path, "pillion-worker", registration).map(Self)
    }

    pub fn connect(socket: &Path, tools: &Value) -> Self {
        let registration = json!({"name": "test", "tools": tools});
        Self::try_connect(socket, &registration).unwrap_or_else(|rejection| panic!("{rejection:?}"))
    }

    /// Returns the next message, or `None` if the sidecar closed the connection.
    pub fn read(&mut self) -> Option<Value> {
        self.0.read()
    }

    pub fn write(&mut self, message: &Value) {
        self.0.write(message);
    }

    pub fn respond(&mut self, call: &Value, result: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
    }

    pub fn respond_text(&mut self, call: &Value, text: &str) {
        self.respond(call, &json!({"content": [{"type": "text", "text": text}]}));
    }

    /// Answers calls with the text that `result` returns, until the connection closes.
    pub fn serve(mut self, result: impl Fn(&Value) -> String + Send + 'static) {
        thread::spawn(move || {
            while let Some(call) = self.read() {
                if call["method"] == "tools/call" {
                    self.respond_text(&call, &result(&call["params"]));
                }
            }
        });
    }
}

pub fn greet() -> Value {
    json!([{
        "name": "greet",
        "title": "Greeting",
        "description": "Greets a person",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "category": "manners"
    }])
}

fn call(socket: &Path, arguments: &str) -> Value {
    socket.post("/api/v1/tools/execute/greet", arguments).json()
}

fn greet_ann(socket: &Path) -> Value {
    call(socket, r#"{"name": "Ann"}"#)
}

fn begin_call(daemon: &Daemon) -> JoinHandle<Value> {
    let socket = daemon.socket.clone();
    thread::spawn(move || greet_ann(&socket))
}

fn workers(socket: &Path) -> Vec<Value> {
    let list = socket.get("/api/v1/workers").json();
    list["workers"].items().clone()
}

fn in_flight(daemon: &Daemon) -> Value {
    daemon.get("/api/v1/status").json()["calls"]["in_flight"].clone()
}

#[test]
fn a_tool_of_a_worker_is_a_tool_like_any_other() {
    let daemon = Daemon::start();
    Worker::connect(&daemon.socket, &greet()).serve(|params| {
        assert_eq!(params["name"], "greet");
        assert!(params["_meta"]["pillion"]["callId"].is_string());
        let remaining = params["_meta"]["pillion"]["deadlineMs"].as_u64().unwrap();
        assert!((1..=30_000).contains(&remaining), "{params}");
        format!("Hello, {}", params["arguments"]["name"].text())
    });
    let response = greet_ann(&daemon.socket);
    assert_json!(response["result"]["text"], "Hello, Ann");
    let pid = std::process::id().to_string();
    let listed = stdout(&daemon.run(&["workers"]));
    let cells: Vec<_> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells, ["1", "test", &pid, "ready", "1", "greet"]);
    // Invalid arguments never reach the worker (C3).
    let response = call(&daemon.socket, "{}");
    assert_json!(response["result"]["error_code"], "invalid_input");
    let list = daemon.get("/api/v1/tools/?category=manners").json();
    assert_eq!(list["total"], 1);
    // MCP clients see what the worker declared, without the parts for the sidecar.
    let response = ask(&daemon.socket, "tools/list", json!({}));
    let tools = response["result"]["tools"].items();
    let tool = tools.iter().find(|tool| tool["name"] == "greet").unwrap();
    assert_eq!(tool["title"], "Greeting");
    assert!(tool.get("category").is_none());
    // The call log contains both calls (F4).
    assert_eq!(daemon.recorded("?tool=greet").len(), 2);
}

#[test]
fn mcp_clients_receive_the_unchanged_result_of_a_worker() {
    let daemon = Daemon::start();
    let mut worker = Worker::connect(&daemon.socket, &greet());
    let result = json!({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}], "structuredContent": {"big": 9_007_199_254_740_993_u64}, "_meta": {"own": 1}});
    let sent = result.clone();
    let serving = thread::spawn(move || {
        let call = worker.read().unwrap();
        worker.respond(&call, &sent);
        worker
    });
    let params = json!({"name": "greet", "arguments": {"name": "Ann"}});
    let (headers, body) = stateless("tools/call", params, json!({}));
    let response = daemon.post_with("/mcp", &headers, body.to_string()).json();
    for (key, value) in result.as_object().unwrap() {
        if key != "_meta" {
            assert_eq!(&response["result"][key], value, "{response}");
        }
    }
    assert_json!(response["result"]["_meta"]["own"], 1);
    drop(serving.join());
}

#[test]
fn failures_of_a_worker_have_the_standard_codes() {
    let daemon = Daemon::start();
    let mut worker = Worker::connect(&daemon.socket, &greet());
    thread::spawn(move || {
        let responses = [
            json!({"result": {"content": [{"type": "text", "text": "No such guest"}], "isError": true, "errorCode": "not_found"}}),
            json!({"result": {"content": [{"type": "text", "text": "Oh"}], "isError": true}}),
            json!({"error": {"code": -32602, "message": "Odd name"}}),
            json!({"error": {"code": -32000, "message": "Broken"}}),
            json!({"result": 5}),
            json!({}),
        ];
        for mut response in responses {
            let call = worker.read().unwrap();
            response["jsonrpc"] = json!("2.0");
            response["id"] = call["id"].clone();
            worker.write(&response);
        }
        worker
    });
    let expected = [
        ("not_found", "No such guest"),
        ("internal_error", "Oh"),
        ("invalid_input", "Odd name"),
        ("internal_error", "Broken"),
    ];
    for (code, error) in expected {
        let response = greet_ann(&daemon.socket);
        assert_json!(response["result"]["error_code"], code);
        assert_json!(response["result"]["error"], error);
    }
    let response = greet_ann(&daemon.socket);
    assert_json!(response["result"]["data"], 5);
    let response = greet_ann(&daemon.socket);
    assert_json!(response["result"]["error_code"], "internal_error");
}

#[test]
fn the_call_of_a_dead_worker_fails_at_once_and_another_worker_takes_later_calls() {
    let daemon = Daemon::start();
    let mut dying = Worker::connect(&daemon.socket, &greet());
    let started = Instant::now();
    let caller = begin_call(&daemon);
    assert_eq!(dying.read().unwrap()["method"], "tools/call");
    drop(dying);
    let response = caller.join().unwrap();
    assert_json!(response["result"]["error_code"], "unavailable");
    assert!(started.elapsed() < Duration::from_secs(20));
    // The tool of a worker that has disconnected stays for a while: a call waits for the next
    // worker.
    let caller = begin_call(&daemon);
    let is_alone = || workers(&daemon.socket).is_empty();
    eventually("no worker is connected", is_alone);
    Worker::connect(&daemon.socket, &greet()).serve(|_| "Here I am".to_owned());
    assert_eq!(caller.join().unwrap()["result"]["text"], "Here I am");
}

#[test]
fn without_a_new_worker_the_tool_is_removed_and_waiting_calls_fail() {
    let daemon = Daemon::with_config("[workers]\ngrace_period_ms = 700\n");
    let mut worker = Worker::connect(&daemon.socket, &greet());
    let socket = daemon.socket.clone();
    let caller = thread::spawn(move || {
        let first = greet_ann(&socket);
        (first, greet_ann(&socket))
    });
    worker.read().unwrap();
    drop(worker);
    let (first, second) = caller.join().unwrap();
    assert_json!(first["result"]["error_code"], "unavailable");
    assert_json!(second["result"]["error_code"], "unavailable");
    let response = greet_ann(&daemon.socket);
    assert_json!(response["error_code"], "not_found");
}

/// Returns the names in the next `tools.changed` event of a stream.
fn next_change(events: &mut EventStream) -> [String; 3] {
    let data = events.next().unwrap().data;
    assert_eq!(data["server"], Value::Null);
    ["added", "changed", "removed"].map(|key| data[key].to_string())
}

#[test]
fn m2_a_worker_receives_the_trace_of_its_call() {
    let daemon = Daemon::start();
    let mut worker = Worker::connect(&daemon.socket, &greet());
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let socket = daemon.socket.clone();
    let caller = thread::spawn(move || {
        let headers = format!("traceparent: {parent}\r\n");
        let path = "/api/v1/tools/execute/greet";
        let body = r#"{"name": "Ada"}"#;
        socket.post_with(path, &headers, body).status
    });
    let call = loop {
        let line = worker.read().unwrap();
        if line["method"] == "tools/call" {
            break line;
        }
    };
    assert_eq!(call["params"]["_meta"]["traceparent"], parent);
    worker.respond(&call, &json!({"content": []}));
    assert_eq!(caller.join().unwrap(), 200);
}

#[test]
fn f5_added_and_removed_tools_of_workers_are_announced() {
    let daemon = Daemon::with_config("[workers]\ngrace_period_ms = 100\n");
    let (mut events, _) = EventStream::from_now(&daemon.socket, "?types=tools");
    let worker = Worker::connect(&daemon.socket, &greet());
    assert_eq!(next_change(&mut events), [r#"["greet"]"#, "[]", "[]"]);
    // Another worker with the same tool changes nothing.
    let second = Worker::connect(&daemon.socket, &greet());
    let mut other = greet();
    other[0]["description"] = json!("Greets a person well");
    let third = Worker::connect(&daemon.socket, &other);
    assert_eq!(next_change(&mut events), ["[]", r#"["greet"]"#, "[]"]);
    drop(third);
    assert_eq!(next_change(&mut events), ["[]", r#"["greet"]"#, "[]"]);
    drop((worker, second));
    assert_eq!(next_change(&mut events), ["[]", "[]", r#"["greet"]"#]);
}

#[test]
fn two_workers_run_calls_concurrently_and_more_calls_wait() {
    let daemon = Daemon::start();
    let mut pair = [(); 2].map(|()| Worker::connect(&daemon.socket, &greet()));
    let callers = [0, 1, 2, 3].map(|number| {
        let socket = daemon.socket.clone();
        thread::spawn(move || call(&socket, &format!("{{\"name\": \"{number}\"}}")))
    });
    // Both workers have a call before either has answered.
    let first = pair.each_mut().map(|worker| worker.read().unwrap());
    let all = workers(&daemon.socket);
    assert!(all.iter().all(|worker| worker["busy"] == true));
    for (worker, call) in pair.iter_mut().zip(&first) {
        worker.respond_text(call, "first");
    }
    for worker in pair {
        worker.serve(|_| "second".to_owned());
    }
    let mut texts = callers.map(|caller| caller.join().unwrap()["result"]["text"].clone());
    texts.sort_by_key(ToString::to_string);
    assert_eq!(texts, ["first", "first", "second", "second"]);
}

#[test]
fn c2_a_call_that_times_out_is_cancelled_and_its_late_answer_ignored() {
    let daemon = Daemon::start();
    let mut tools = greet();
    tools[0]["timeoutMs"] = json!(300);
    let mut worker = Worker::connect(&daemon.socket, &tools);
    let response = greet_ann(&daemon.socket);
    let error = "Tool 'greet' timed out after 0.3s";
    assert_json!(response["result"]["error"], error);
    let late = worker.read().unwrap();
    let cancelled = worker.read().unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], late["id"]);
    worker.respond_text(&late, "late");
    worker.serve(|_| "in time".to_owned());
    let response = greet_ann(&daemon.socket);
    assert_json!(response["result"]["text"], "in time");
}

#[test]
fn a_newer_definition_replaces_the_older_one() {
    let daemon = Daemon::start();
    Worker::connect(&daemon.socket, &greet()).serve(|_| "old".to_owned());
    let mut newer = greet();
    newer[0]["description"] = json!("Greets a person warmly");
    let mut new = Worker::connect(&daemon.socket, &newer);
    let caller = begin_call(&daemon);
    let reassigned = new.read().unwrap();
    new.respond_text(&reassigned, "new");
    assert_eq!(caller.join().unwrap()["result"]["text"], "new");
    drop(new);
    let is_old = || greet_ann(&daemon.socket)["result"]["text"] == "old";
    eventually("the older one has its place back", is_old);
}

#[test]
fn a_waiting_call_is_not_given_to_a_tool_that_now_needs_approval() {
    let daemon = Daemon::start();
    let mut busy = Worker::connect(&daemon.socket, &greet());
    let callers = [1, 2].map(|_| begin_call(&daemon));
    let first = busy.read().unwrap();
    eventually("the second waits", || in_flight(&daemon) == 2);
    let mut careful = greet();
    careful[0]["requiresConfirmation"] = json!(true);
    let _careful = Worker::connect(&daemon.socket, &careful);
    busy.respond_text(&first, "done");
    let mut responses = callers.map(|caller| caller.join().unwrap()["result"].clone());
    responses.sort_by_key(|response| response["success"] == true);
    assert_eq!(responses[0]["error_code"], "unavailable", "{responses:?}");
    assert_eq!(responses[1]["text"], "done", "{responses:?}");
    let response = greet_ann(&daemon.socket);
    assert_json!(response["result"]["error_code"], "approval_required");
}

#[test]
fn a_waiting_call_goes_to_the_older_worker_when_the_newer_one_dies() {
    let daemon = Daemon::start();
    let older = Worker::connect(&daemon.socket, &greet());
    let mut newer = greet();
    newer[0]["description"] = json!("Greets a person warmly");
    let mut newer = Worker::connect(&daemon.socket, &newer);
    let callers = [1, 2].map(|_| begin_call(&daemon));
    newer.read().unwrap();
    eventually("the second waits", || in_flight(&daemon) == 2);
    older.serve(|_| "I am still here".to_owned());
    drop(newer);
    let mut responses = callers.map(|caller| caller.join().unwrap()["result"].clone());
    responses.sort_by_key(|response| response["success"] == true);
    assert_eq!(responses[0]["error_code"], "unavailable", "{responses:?}");
    assert_eq!(responses[1]["text"], "I am still here", "{responses:?}");
}

#[test]
fn a_draining_worker_gets_no_more_calls() {
    let daemon = Daemon::start();
    let mut draining = Worker::connect(&daemon.socket, &greet());
    draining.write(&json!({"jsonrpc": "2.0", "method": "worker/draining"}));
    draining.write(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    let pong = json!({"jsonrpc": "2.0", "id": "p", "result": {}});
    assert_eq!(draining.read(), Some(pong));
    Worker::connect(&daemon.socket, &greet()).serve(|_| "other".to_owned());
    for _ in 0..3 {
        let response = greet_ann(&daemon.socket);
        assert_eq!(response["result"]["text"], "other");
    }
}

#[test]
fn an_invalid_registration_is_rejected_and_changes_nothing() {
    let daemon = Daemon::with_config("[workers]\nmax_workers = 1\n");
    let rejected = |registration: Value| {
        let rejection = Worker::try_connect(&daemon.socket, &registration).err();
        let (head, body) = rejection.unwrap();
        (head[9..12].to_owned(), body["error"].text().to_owned())
    };
    let object = json!({"type": "object"});
    let nonsense = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
    let tool = |name: &str, schema: &Value| {
        let tool = json!({"name": name, "description": "x", "inputSchema": schema});
        json!({"name": "x", "tools": [tool]})
    };
    let slow = |seconds: Value| {
        let tool = json!({"name": "a", "description": "x", "cooldownSeconds": seconds});
        json!({"name": "x", "tools": [tool]})
    };
    let a = json!({"name": "a", "description": "x"});
    let used = tool("calculator", &object);
    let twice = json!({"name": "x", "tools": [a, a]});
    for (registration, status, words) in [
        (used, "409", "'calculator' is already used"),
        (tool("not a name", &object), "400", "tools[0]"),
        (tool("t", &json!({"type": "string"})), "400", "type object"),
        (tool("t", &nonsense), "400", "'t'"),
        (json!({"name": "", "tools": greet()}), "400", "name"),
        (json!({"name": "x", "tools": []}), "400", "tools"),
        (twice, "400", "two tools with the name 'a'"),
        (slow(json!(-1)), "400", "cooldown"),
        (slow(json!(1e19)), "400", "cooldown"),
        (json!({"name": "x"}), "400", "registration"),
        (json!(7), "400", "registration"),
    ] {
        let (code, error) = rejected(registration.clone());
        assert_eq!(code, status, "{registration}: {error}");
        assert!(error.contains(words), "{registration}: {error}");
    }
    let _only = Worker::connect(&daemon.socket, &greet());
    let (code, error) = rejected(json!({"name": "x", "tools": greet()}));
    assert_eq!(code, "503", "{error}");
    assert_contains!(error, "max_workers");
    let list = daemon.get("/api/v1/tools/").json();
    assert_json!(list["total"], 7);
    let response = daemon.post("/api/v1/workers", "{}");
    assert_eq!(response.status, 426);
}

#[test]
fn a_worker_that_sends_garbage_is_disconnected_and_its_call_fails() {
    let daemon = Daemon::with_config("[workers]\nmax_message_bytes = 1000\n");
    let too_long = format!("\"{}\"", "x".repeat(2_000));
    let nested = "[".repeat(5_000);
    let nonsense = [
        "{]",
        "\u{0}",
        &too_long,
        &nested,
        "{\"id\": 99, \"result\": 1}",
        "{\"id\": \"x\"}",
    ];
    for line in nonsense {
        let mut worker = Worker::connect(&daemon.socket, &greet());
        let caller = begin_call(&daemon);
        worker.read().unwrap();
        // The connection may be closed before everything is written.
        drop(writeln!(worker.0.writer, "{line}"));
        let response = caller.join().unwrap();
        let code = &response["result"]["error_code"];
        assert_eq!(code, "unavailable", "{line}: {response}");
        assert!(worker.read().is_none());
    }
    eventually("no worker is left", || workers(&daemon.socket).is_empty());
}

/// A script that starts a worker which receives a call, and a child process that holds the
/// connection.
const HOLDER: &str = r#"
import json, socket, subprocess, sys, time
worker = socket.socket(socket.AF_UNIX)
worker.connect(sys.argv[1])
body = json.dumps({"name": "test", "tools": [{"name": "greet", "description": "Greets",
    "inputSchema": {"type": "object"}}]}).encode()
head = ("POST /api/v1/workers HTTP/1.1\r\nHost: pillion\r\nConnection: Upgrade\r\n"
    "Upgrade: pillion-worker\r\nContent-Length: %d\r\n\r\n") % len(body)
worker.sendall(head.encode() + body)
heard = b""
while b"tools/call" not in heard:
    heard += worker.recv(65536)
worker.set_inheritable(True)
left = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
print(left.pid, flush=True)
time.sleep(60)
"#;

#[test]
fn the_call_of_a_killed_worker_fails_at_once_though_its_child_holds_the_connection() {
    let daemon = Daemon::start();
    let mut worker = Command::new("python3")
        .args(["-c", HOLDER])
        .arg(&daemon.socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let is_there = || !workers(&daemon.socket).is_empty();
    eventually("the worker is there", is_there);
    let socket = daemon.socket.clone();
    let caller = thread::spawn(move || call(&socket, "{}"));
    let mut left = String::new();
    let mut lines = BufReader::new(worker.stdout.take().unwrap());
    lines.read_line(&mut left).unwrap();
    let killed = Instant::now();
    worker.kill().unwrap();
    worker.wait().unwrap();
    let response = caller.join().unwrap();
    let took = killed.elapsed();
    let left = Pid::from_raw(left.trim().parse().unwrap());
    kill(left, Signal::SIGKILL).unwrap();
    assert_json!(response["result"]["error_code"], "unavailable");
    let error = response["result"]["error"].text();
    assert_contains!(error, "the worker's process has ended");
    assert!(took < Duration::from_secs(15), "{took:?}");
    eventually("the tool is removed", || workers(&daemon.socket).is_empty());
}

#[test]
fn a_result_of_8_mib_is_returned_completely() {
    let daemon = Daemon::start();
    let text = "ä".repeat(4 << 20);
    let sent = text.clone();
    Worker::connect(&daemon.socket, &greet()).serve(move |_| sent.clone());
    for _ in 0..3 {
        let response = greet_ann(&daemon.socket);
        assert_eq!(response["result"]["success"], true);
        assert_eq!(response["result"]["data"].text().len(), text.len());
    }
}

#[test]
fn the_sidecar_stops_with_a_worker_connected() {
    let mut daemon = Daemon::start();
    let mut worker = Worker::connect(&daemon.socket, &greet());
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(daemon.wait().success());
    assert!(worker.read().is_none());
}
