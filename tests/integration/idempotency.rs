//! `Idempotency-Key`: a repeated request runs once, whatever happens in between.

use crate::http::Reply;
use crate::prelude::*;

const CALCULATOR: &str = "/api/v1/tools/execute/calculator";
const ECHO: &str = "/api/v1/tools/execute/far_echo";
const BATCH: &str = "/api/v1/tools/batch-execute";

fn post(socket: &Path, target: &str, headers: &str, body: &Value) -> Reply {
    socket.post_with(target, headers, body.to_string())
}

fn sum() -> Value {
    json!({"expression": "6 * 7"})
}

fn is_replayed(reply: &Reply) -> bool {
    reply.head.contains("idempotency-replayed: true")
}

fn config(server: &McpServer, timeout_ms: u32) -> String {
    let more = format!("[executor]\ntimeout_ms = {timeout_ms}");
    server_entry("far", &server.url, &more)
}

/// Starts a server and a daemon that has listed the server's tools.
fn start(timeout_ms: u32) -> (McpServer, Daemon) {
    start_with("", timeout_ms)
}

/// Like [`start`], with further settings.
fn start_with(more: &str, timeout_ms: u32) -> (McpServer, Daemon) {
    let server = McpServer::echo();
    let daemon = Daemon::with_config(&(more.to_owned() + &config(&server, timeout_ms)));
    daemon.tools();
    (server, daemon)
}

#[test]
fn a_request_with_a_key_runs_once_and_its_response_survives_a_restart() {
    let (server, mut daemon) = start(5_000);
    let arguments = json!({"a": 1, "b": 2});
    let quoted = "idempotency-key: \"k-1\"\r\n";
    let first = post(&daemon.socket, ECHO, quoted, &arguments);
    assert_eq!(first.status, 200);
    assert!(!is_replayed(&first), "{}", first.head);
    // A request without quotes around the key and with arguments in another order is the same
    // request.
    let key = "idempotency-key: k-1\r\n";
    let second = daemon.post_with(ECHO, key, b"{\"b\": 2, \"a\": 1}");
    assert!(is_replayed(&second), "{}", second.head);
    assert_eq!(second.json(), first.json());
    assert_eq!(server.count("tools/call"), 1);

    // A different request, user or key does not share the response.
    let other = post(&daemon.socket, ECHO, key, &json!({"a": 2}));
    assert_eq!(other.expect(422)["error_code"], "invalid_input");
    let other = post(&daemon.socket, CALCULATOR, key, &arguments);
    assert_eq!(other.status, 422);
    let bobs = format!("{key}x-pillion-user: bob\r\n");
    assert!(!is_replayed(&post(&daemon.socket, ECHO, &bobs, &arguments)));
    let caller = Caller::default().idempotency_key("k-2");
    let client = daemon.client();
    client.execute("far_echo", &arguments, &caller).unwrap();
    assert_eq!(server.count("tools/call"), 3);

    let daemon = daemon.restart();
    let third = post(&daemon.socket, ECHO, key, &arguments);
    assert!(is_replayed(&third));
    assert_eq!(third.json(), first.json());
    assert_eq!(server.count("tools/call"), 3);
}

#[test]
fn a_request_that_did_not_run_may_be_repeated_with_its_key() {
    let daemon = Daemon::with_config("[tools.get_time]\nrate_limit = { per_minute = 1 }\n");
    let key = "idempotency-key: k\r\n";
    let wrong = json!({"expression": 7});
    for _ in 0..2 {
        let rejected = post(&daemon.socket, CALCULATOR, key, &wrong);
        assert_eq!(rejected.json()["result"]["error_code"], "invalid_input");
        assert!(!is_replayed(&rejected));
    }
    let valid = json!({"expression": "1+1"});
    let right = post(&daemon.socket, CALCULATOR, key, &valid);
    assert_eq!(right.json()["result"]["success"], true);

    let time = "/api/v1/tools/execute/get_time";
    post(&daemon.socket, time, "", &json!({}));
    let key = "idempotency-key: limited\r\n";
    for _ in 0..2 {
        let rejected = post(&daemon.socket, time, key, &json!({}));
        assert_eq!(rejected.json()["result"]["error_code"], "rate_limited");
        assert!(!is_replayed(&rejected));
    }
    // A call of an unknown tool has not run, so its key stays free.
    let nope = "/api/v1/tools/execute/nope";
    for _ in 0..2 {
        let unknown = post(&daemon.socket, nope, key, &json!({}));
        assert_eq!(unknown.json()["error_code"], "not_found");
    }
}

#[test]
fn a_running_request_is_a_conflict_and_its_failure_is_stored() {
    let (server, daemon) = start(3_000);
    server.set_mood(Mood::Asleep);
    let socket = daemon.socket.clone();
    let first =
        std::thread::spawn(move || post(&socket, ECHO, "idempotency-key: k\r\n", &json!({})));
    eventually("the call runs", || server.count("tools/call") == 1);
    let second = post(&daemon.socket, ECHO, "idempotency-key: k\r\n", &json!({}));
    assert_eq!(second.expect(409)["error_code"], "unavailable");
    assert_contains!(second.head, "retry-after: 1");
    let first = first.join().unwrap().json();
    assert_eq!(first["result"]["error_code"], "timeout");
    server.set_mood(Mood::Well);
    let third = post(&daemon.socket, ECHO, "idempotency-key: k\r\n", &json!({}));
    assert!(is_replayed(&third));
    assert_eq!(third.json(), first);
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn an_expired_key_does_not_run_twice_concurrently() {
    let (server, daemon) = start_with("[http]\nidempotency_ttl_ms = 50\n", 2_000);
    server.set_mood(Mood::Asleep);
    let key = "idempotency-key: k\r\n";
    let socket = daemon.socket.clone();
    let first = std::thread::spawn(move || post(&socket, ECHO, key, &json!({})));
    eventually("the call runs", || server.count("tools/call") == 1);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let second = post(&daemon.socket, ECHO, key, &json!({}));
    assert_eq!(second.status, 409, "{}", second.head);
    assert_eq!(server.count("tools/call"), 1);
    assert_eq!(first.join().unwrap().status, 200);
    // After the end of the call, the key is free.
    server.set_mood(Mood::Well);
    let third = post(&daemon.socket, ECHO, key, &json!({}));
    assert!(!is_replayed(&third), "{}", third.head);
    assert_eq!(server.count("tools/call"), 2);
}

#[test]
fn f4_after_a_takeover_a_running_key_is_interrupted_when_the_old_sidecar_exits() {
    let (server, mut daemon) = start(60_000);
    server.set_mood(Mood::Asleep);
    let key = "idempotency-key: k\r\n";
    let _caller = daemon.begin("POST", ECHO, key, "{}");
    eventually("the call runs", || server.count("tools/call") == 1);
    let next = daemon.successor();
    let during = post(&next.socket, ECHO, key, &json!({}));
    assert_eq!(during.status, 409, "it may still end well");
    daemon.kill();
    let after = eventually_some("the key is reported as interrupted", || {
        Some(post(&next.socket, ECHO, key, &json!({}))).filter(|it| it.status == 200)
    });
    assert!(is_replayed(&after));
    let metadata = &after.json()["result"]["metadata"];
    assert_eq!(metadata["interrupted"], true, "{}", after.json());
    assert_eq!(server.count("tools/call"), 1);
    let id = after.json()["result"]["metadata"]["record_id"].clone();
    let is_recorded = || next.record(&id)["status"] == "interrupted";
    eventually("the call log has the outcome", is_recorded);
}

#[test]
fn after_a_takeover_a_sidecar_starts_though_the_new_one_died_and_runs_no_call_twice() {
    for options in [&[][..], &["--take-over"]] {
        let (_server, daemon, _callers) = one_runs_and_one_waits(60_000);
        let mut next = daemon.successor();
        let call = post(&next.socket, CALCULATOR, "", &sum());
        assert_eq!(call.json()["result"]["data"]["result"], 42);
        next.kill();

        let last = next.again_with_options(options);
        for (target, key, body) in [(ECHO, "ran", json!({})), (CALCULATOR, "waits", sum())] {
            let key = format!("idempotency-key: {key}\r\n");
            let reply = post(&last.socket, target, &key, &body);
            // The first sidecar finishes the call.
            assert_eq!(reply.status, 409, "{}", reply.head);
        }
        let count = |status: &str| last.recorded(&format!("?status={status}")).len();
        assert_eq!([count("running"), count("interrupted")], [1, 0]);
        drop(daemon);
        let reply = post(&last.socket, ECHO, "idempotency-key: ran\r\n", &json!({}));
        assert!(is_replayed(&reply), "{}", reply.head);
        assert_eq!(reply.json()["result"]["metadata"]["interrupted"], true);
        assert_eq!([count("running"), count("interrupted")], [0, 1]);
    }
}

#[test]
fn a_call_with_a_key_continues_after_its_caller_disconnects() {
    let server = McpServer::echo();
    let toml = format!("{}[tools.get_time]\n", config(&server, 3_000));
    let daemon = Daemon::with_variables(&toml, &[("PILLION__EXECUTOR__MAX_CONCURRENT_TOTAL", "1")]);
    daemon.tools();
    server.set_mood(Mood::Asleep);
    let socket = daemon.socket.clone();
    let before = std::thread::spawn(move || post(&socket, ECHO, "", &json!({})));
    eventually("the place is taken", || server.count("tools/call") == 1);
    // The next call waits, and its caller disconnects.
    let caller = begin(&daemon, CALCULATOR, "k", &sum());
    let queued = || daemon.get("/api/v1/status").json()["calls"]["queued"].clone();
    eventually("it waits", || queued() == 1);
    drop(caller);
    before.join().unwrap();
    let key = "idempotency-key: k\r\n";
    let reply = eventually_some("it has ended", || {
        Some(post(&daemon.socket, CALCULATOR, key, &sum())).filter(|it| it.status == 200)
    });
    assert!(is_replayed(&reply), "{}", reply.head);
    assert_eq!(reply.json()["result"]["data"]["result"], 42);
}

#[test]
fn requests_that_continue_after_a_disconnect_are_limited() {
    let (server, daemon) = start_with("[http]\nmax_detached = 1\n", 10_000);
    server.set_mood(Mood::Asleep);
    let caller = begin(&daemon, ECHO, "gone", &json!({}));
    eventually("the request is there", || server.count("tools/call") == 1);
    drop(caller);
    let mut keys = 0..;
    let mut response = || {
        let key = format!("idempotency-key: k-{}\r\n", keys.next().unwrap());
        post(&daemon.socket, CALCULATOR, &key, &sum())
    };
    let rejected = eventually_some("a further request is refused", || {
        Some(response()).filter(|it| it.status == 429)
    });
    assert_eq!(rejected.json()["error_code"], "rate_limited");
    assert_contains!(rejected.head, "retry-after: 1");
    // A request without a key is not limited, because it ends with its connection.
    let plain = post(&daemon.socket, CALCULATOR, "", &sum());
    assert_eq!(plain.status, 200);
    eventually("the first one has ended", || response().status == 200);
}

#[test]
fn stored_responses_have_a_quota_and_requests_beyond_it_run_once() {
    let toml = "[http]\nidempotency_max_bytes = 500\n";
    let mut daemon = Daemon::with_config(toml);
    let send = |daemon: &Daemon, key: &str| {
        let key = format!("idempotency-key: {key}\r\n");
        post(&daemon.socket, CALCULATOR, &key, &sum())
    };
    for key in ["a", "b", "c"] {
        let first = send(&daemon, key);
        assert_eq!(first.json()["result"]["data"]["result"], 42);
    }
    let again = send(&daemon, "a");
    assert_eq!(again.json()["result"]["data"]["result"], 42);
    let mut last = send(&daemon, "c");
    for _ in 0..2 {
        assert!(is_replayed(&last), "{}", last.head);
        let result = &last.json()["result"];
        assert_json!(result["error_code"], "unavailable");
        assert_eq!(result["metadata"]["response_stored"], false);
        let call = daemon.record(&result["metadata"]["record_id"]);
        assert_json!(call["status"], "success");
        // Stored responses count after a restart, too.
        daemon.kill();
        daemon = daemon.again();
        assert_eq!(send(&daemon, "d").status, 200);
        last = send(&daemon, "d");
    }
    assert_eq!(daemon.recorded("").len(), 4);
}

#[test]
fn f4_after_a_crash_only_calls_that_had_not_started_run_again() {
    let (server, mut daemon, _callers) = one_runs_and_one_waits(30_000);
    daemon.kill();
    server.set_mood(Mood::Well);

    let daemon = daemon.again();
    let waited = "idempotency-key: waits\r\n";
    let reply = post(&daemon.socket, CALCULATOR, waited, &sum());
    assert!(!is_replayed(&reply));
    assert_eq!(reply.json()["result"]["data"]["result"], 42);
    for _ in 0..2 {
        let reply = post(&daemon.socket, ECHO, "idempotency-key: ran\r\n", &json!({}));
        assert!(is_replayed(&reply));
        let result = reply.json()["result"].clone();
        assert_eq!(result["success"], false);
        assert_eq!(result["error_code"], "unavailable");
        assert_eq!(result["metadata"]["interrupted"], true);
        // The call's record has the same outcome as the response.
        let record = daemon.record(&result["metadata"]["record_id"]);
        assert_json!(record["status"], "interrupted");
    }
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn an_interrupted_call_does_not_run_again_after_its_record_was_removed() {
    for (limit, others) in [
        ("max_calls = 0", 0),
        ("max_age_days = 0", 0),
        ("max_bytes = 0", 0),
        ("max_calls = 2", 4),
        ("max_calls = 2\nmax_bytes = 100", 4),
    ] {
        let (server, mut daemon) = start_with(&format!("[call_log]\n{limit}\n"), 30_000);
        server.set_mood(Mood::Asleep);
        let _caller = begin(&daemon, ECHO, "ran", &json!({}));
        eventually("the call runs", || server.count("tools/call") == 1);
        daemon.kill();
        server.set_mood(Mood::Well);

        let mut daemon = daemon.again();
        for _ in 0..others {
            post(&daemon.socket, CALCULATOR, "", &json!({"expression": "1"}));
        }
        // The sidecar removes old calls when it starts.
        let daemon = daemon.restart();
        eventually("the record is removed", || {
            let calls = daemon.get("/api/v1/tool-calls?tool=far_echo");
            calls.json()["calls"].as_array().is_some_and(Vec::is_empty)
        });
        let reply = post(&daemon.socket, ECHO, "idempotency-key: ran\r\n", &json!({}));
        assert!(is_replayed(&reply), "{limit}");
        let metadata = &reply.json()["result"]["metadata"];
        assert_eq!(metadata["interrupted"], true, "{limit}");
        assert_eq!(server.count("tools/call"), 1, "{limit}");
    }
}

/// Sends a request with a key and does not wait for the response.
fn begin(daemon: &Daemon, target: &str, key: &str, body: &Value) -> UnixStream {
    let key = format!("idempotency-key: {key}\r\n");
    daemon.begin("POST", target, &key, body.to_string())
}

/// Starts a sidecar that runs one call at a time. The call with the key `ran` runs, and the call
/// with the key `waits` waits.
fn one_runs_and_one_waits(timeout_ms: u32) -> (McpServer, Daemon, [UnixStream; 2]) {
    let server = McpServer::echo();
    let limit = [("PILLION__EXECUTOR__MAX_CONCURRENT_TOTAL", "1")];
    let daemon = Daemon::with_variables(&config(&server, timeout_ms), &limit);
    daemon.tools();
    server.set_mood(Mood::Asleep);
    let running = begin(&daemon, ECHO, "ran", &json!({}));
    eventually("the first runs", || server.count("tools/call") == 1);
    let waiting = begin(&daemon, CALCULATOR, "waits", &sum());
    let is_queued = || daemon.get("/api/v1/status").json()["calls"]["queued"] == 1;
    eventually("the second waits", is_queued);
    (server, daemon, [running, waiting])
}

#[test]
fn c1_a_batch_with_a_key_runs_once_and_its_response_survives_a_restart() {
    let (server, mut daemon) = start(5_000);
    let key = "idempotency-key: b\r\n";
    let wrong = json!({"id": "2", "name": "calculator", "arguments": {"expression": 7}});
    let batch = json!({"calls": [
        {"id": "1", "name": "far_echo", "arguments": {"a": 1, "b": 2}},
        wrong,
        {"id": "3", "name": "nope"},
    ]});
    // The call has not run, so the key is free.
    let none_runs = json!({"calls": [wrong]});
    let rejected = post(&daemon.socket, BATCH, key, &none_runs).json();
    let result = &rejected["results"][0]["result"];
    assert_eq!(result["error_code"], "invalid_input", "{rejected}");
    let first = post(&daemon.socket, BATCH, key, &batch);
    assert!(!is_replayed(&first), "{}", first.head);
    let results = first.json()["results"].clone();
    assert_json!(results[0]["result"]["success"], true);
    assert_eq!(results[1]["result"]["error_code"], "invalid_input");
    assert_eq!(results[2]["error_code"], "not_found");
    let sequential = json!({"calls": batch["calls"], "mode": "sequential"});
    for sent in [&none_runs, &sequential] {
        assert_eq!(post(&daemon.socket, BATCH, key, sent).status, 422, "{sent}");
    }
    let single = post(&daemon.socket, ECHO, key, &json!({"a": 1, "b": 2}));
    assert_eq!(single.status, 422);

    let daemon = daemon.restart();
    let reply = post(&daemon.socket, BATCH, key, &batch);
    assert!(is_replayed(&reply), "{}", reply.head);
    assert_eq!(reply.json(), first.json());
    assert_eq!(server.count("tools/call"), 1);
    // Each call has a separate record.
    let id = results[0]["result"]["metadata"]["record_id"].clone();
    assert_eq!(daemon.record(&id)["status"], "success");
    assert_ne!(results[1]["result"]["metadata"]["record_id"], id);
}

#[test]
fn an_empty_batch_with_a_key_has_an_empty_response() {
    let daemon = Daemon::with_config("");
    let batch = json!({"calls": []});
    for _ in 0..2 {
        let reply = post(&daemon.socket, BATCH, "idempotency-key: none\r\n", &batch);
        assert_eq!(reply.expect(200)["total"], 0);
    }
}

#[test]
fn f4_no_call_of_a_batch_interrupted_by_a_crash_runs_again() {
    let (server, mut daemon) = start(30_000);
    server.set_mood(Mood::Asleep);
    let key = "idempotency-key: b\r\n";
    let batch = json!({"mode": "sequential", "calls": [
        {"id": "1", "name": "calculator", "arguments": {"expression": "6 * 7"}},
        {"id": "2", "name": "far_echo", "arguments": {}},
        {"id": "3", "name": "calculator", "arguments": {"expression": "1"}},
    ]});
    let _caller = begin(&daemon, BATCH, "b", &batch);
    eventually("the second runs", || server.count("tools/call") == 1);
    let during = post(&daemon.socket, BATCH, key, &batch);
    assert_eq!(during.status, 409);
    assert_contains!(during.head, "retry-after: 1");
    daemon.kill();
    server.set_mood(Mood::Well);

    let daemon = daemon.again();
    for _ in 0..2 {
        let reply = post(&daemon.socket, BATCH, key, &batch);
        assert!(is_replayed(&reply), "{}", reply.head);
        let response = reply.json();
        let statuses = ["success", "interrupted"].map(Some).into_iter();
        for (index, status) in statuses.chain([None]).enumerate() {
            let of_call = &response["results"][index];
            assert_eq!(of_call["id"], (index + 1).to_string());
            let result = &of_call["result"];
            assert_eq!(result["error_code"], "unavailable", "{response}");
            let id = &result["metadata"]["record_id"];
            let known = id.is_string().then(|| daemon.record(id)["status"].clone());
            assert_eq!(known, status.map(Value::from), "{response}");
            let is_interrupted = result["metadata"].get("interrupted").is_some();
            assert_eq!(is_interrupted, status.is_some(), "{response}");
        }
    }
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn invalid_keys_and_keys_without_a_store_are_rejected() {
    let sidecar = Sidecar::start();
    let arguments = json!({"expression": "1"});
    for wrong in [
        "idempotency-key:\r\n".to_owned(),
        "idempotency-key: two words\r\n".to_owned(),
        "idempotency-key: a\r\nidempotency-key: b\r\n".to_owned(),
        format!("idempotency-key: {}\r\n", "x".repeat(256)),
    ] {
        let reply = post(&sidecar.socket, CALCULATOR, &wrong, &arguments);
        assert_eq!(reply.status, 400, "{wrong}");
        assert_eq!(reply.json()["error_code"], "invalid_input");
    }
    let key = "idempotency-key: good\r\n";
    let reply = post(&sidecar.socket, CALCULATOR, key, &arguments);
    assert_eq!(reply.status, 503);
}

/// Calls with keys run at most once: many callers repeat their calls until each has a response,
/// while the sidecar is killed at random times.
#[test]
fn f4_no_call_with_a_key_runs_twice_while_the_sidecar_is_killed_repeatedly() {
    const CALLERS: usize = 4;
    const KEYS: usize = 30;
    let (server, mut daemon) = start(5_000);
    let socket = daemon.socket.clone();
    let answered = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let socket = &socket;
                scope.spawn(move || {
                    let response = |key: usize| {
                        eventually_some("the call has an answer", || try_once(socket, caller, key))
                    };
                    (0..KEYS).filter(|key| response(*key)).count()
                })
            })
            .collect();
        for round in 0..6 {
            std::thread::sleep(std::time::Duration::from_millis(60 + 35 * round));
            daemon.kill();
            daemon = daemon.again();
        }
        let answered = callers.into_iter().map(|caller| caller.join().unwrap());
        answered.sum::<usize>()
    });
    // An interrupted call may have reached the server or not.
    let ran = server.count("tools/call");
    assert!(answered <= ran && ran <= CALLERS * KEYS, "{answered} {ran}");
    assert!(answered > CALLERS * KEYS / 2, "{answered}");
    drop(daemon);
}

/// Makes a call. Returns whether it succeeded, or `None` if that is unknown. The tool is unknown
/// until the sidecar has listed its server.
fn try_once(socket: &Path, caller: usize, key: usize) -> Option<bool> {
    let name = format!("{caller}-{key}");
    let identity = Caller::default().idempotency_key(name);
    let client = Client::builder(socket).build();
    let response = client.execute("far_echo", &json!({"key": key}), &identity);
    match response.ok()? {
        pillion_wire::ExecuteResponse::Executed(ran) => Some(ran.result.success),
        pillion_wire::ExecuteResponse::NotFound(_) => None,
    }
}
