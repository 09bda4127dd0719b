//! A call never waits past its deadline, whatever the store does: the store stops responding at each
//! of its operations in turn.

use pillion_testkit::{Postgres, PostgresRelay};

use crate::http::Reply;
use crate::prelude::*;
use crate::store_file::lock;

const TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum time of a response beyond the deadline: the allowance, and a margin for a busy machine.
const ALLOWANCE: Duration = Duration::from_millis(1_000 + 700);

const ECHO: &str = "/api/v1/tools/execute/far_echo";

fn config(server: &McpServer, more: &str) -> String {
    format!(
        "[executor]\ntimeout_ms = {}\n[chat]\ntimeout_ms = {}\n\
         [store]\nstatement_timeout_ms = 1000\n\
         [[composed_tools]]\nname = \"twice\"\ndescription = \"Echoes twice\"\n\
         steps = [{{ name = \"a\", tool = \"far_echo\" }}, {{ name = \"b\", tool = \"far_echo\" }}]\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n{more}",
        TIMEOUT.as_millis(),
        TIMEOUT.as_millis(),
        server.url
    )
}

/// Starts a server that answers no more calls, and a daemon that knows the tools of the server.
fn asleep() -> (McpServer, Daemon) {
    let server = McpServer::echo();
    let daemon = Daemon::with_config(&config(&server, ""));
    daemon.get("/api/v1/tools/");
    server.set_mood(Mood::Asleep);
    (server, daemon)
}

/// A request whose response is due by its deadline.
struct Case {
    name: &'static str,
    config: &'static str,
    target: &'static str,
    body: Value,
    is_keyed: bool,
}

fn cases() -> Vec<Case> {
    let case = |name, target, body| Case {
        name,
        config: "",
        target,
        body,
        is_keyed: false,
    };
    let batch = json!({"calls": [
        {"id": "1", "name": "far_echo", "arguments": {}},
        {"id": "2", "name": "far_echo", "arguments": {"a": 1}},
    ]});
    vec![
        case("plain", ECHO, json!({})),
        Case {
            is_keyed: true,
            ..case("keyed", ECHO, json!({}))
        },
        Case {
            is_keyed: true,
            ..case("keyed_batch", "/api/v1/tools/batch-execute", batch)
        },
        Case {
            config: "[tools.far_echo]\nrequire_approval = \"always\"\n",
            ..case("approval", ECHO, json!({}))
        },
        case("composed", "/api/v1/tools/execute/twice", json!({})),
        case(
            "memory",
            "/api/v1/tools/execute/remember",
            json!({"content": "x"}),
        ),
        case("chat", "/api/v1/chat", json!({"message": "Hi"})),
    ]
}

/// Returns the results in a response.
fn results(reply: &Reply) -> Vec<Value> {
    let response = reply.json();
    match response["results"].as_array() {
        Some(results) => results
            .iter()
            .map(|result| result["result"].clone())
            .collect(),
        None => vec![response["result"].clone()],
    }
}

/// Makes the store silent at each message in turn. Returns the number of messages of the request.
fn check(case: &Case, daemon: &Daemon, relay: &PostgresRelay, server: &McpServer) -> usize {
    let is_run_alone = case.target == ECHO || case.is_keyed;
    for first in 0.. {
        let what = format!("{}, message {first}", case.name);
        let key = match case.is_keyed {
            true => format!("idempotency-key: k-{first}\r\n"),
            false => String::new(),
        };
        let body = case.body.to_string();
        let request = || daemon.post_with(case.target, &key, body.as_bytes());
        let calls_before = server.count("tools/call");
        relay.go_silent_after(first);
        let began = Instant::now();
        let reply = request();
        let took = began.elapsed();
        assert!(took <= TIMEOUT + ALLOWANCE, "{what}: {took:?} {reply:?}");
        let was_silent = relay.is_silent();
        relay.resume();
        let calls = server.count("tools/call");
        let has_run = calls > calls_before;
        if is_run_alone && has_run {
            assert_eq!(reply.status, 200, "{what}: {reply:?}");
            let successes = results(&reply)
                .iter()
                .filter(|it| it["success"] == true)
                .count();
            assert_eq!(successes, calls - calls_before, "{what}: {reply:?}");
        }
        if case.is_keyed {
            let again = eventually_some("the key has a response", || {
                Some(request()).filter(|reply| {
                    !matches!(reply.status, 409 | 503)
                        && (has_run || results(reply).iter().all(|it| it["success"] == true))
                })
            });
            if has_run {
                assert_eq!(again.json(), reply.json(), "{what}");
                assert_eq!(server.count("tools/call"), calls, "{what}: ran twice");
            }
        }
        eventually(&format!("calls run again: {what}"), || {
            is_well(&daemon.socket)
        });
        if !was_silent {
            return first;
        }
    }
    unreachable!()
}

fn is_well(socket: &Path) -> bool {
    let reply = socket.post("/api/v1/tools/execute/roll_dice", r#"{"notation": "1d6"}"#);
    reply.json()["result"]["success"] == true
}

#[test]
fn no_response_waits_past_its_deadline_whichever_message_to_the_store_is_not_answered() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let handle = runtime.handle();
    thread::scope(|scope| {
        for case in cases() {
            drop(postgres.database(case.name));
            let _inside = handle.enter();
            let relay = PostgresRelay::to(&postgres);
            scope.spawn(move || {
                let _inside = handle.enter();
                let server = McpServer::echo();
                let responses = std::iter::repeat_n(LlmResponse::text("Hello."), 100);
                let llm = handle.block_on(FakeLlm::start(responses));
                let toml = crate::chat::config(&llm, &config(&server, case.config));
                let location = relay.url(case.name);
                let store = [("PILLION__STORE__LOCATION", location.as_str())];
                let daemon = Daemon::with_variables(&toml, &store);
                daemon.get("/api/v1/tools/");
                daemon.post(case.target, case.body.to_string());
                let messages = check(&case, &daemon, &relay, &server);
                assert!(messages >= 2, "{}: {messages}", case.name);
            });
        }
    });
}

#[test]
fn a_response_does_not_wait_for_a_locked_store_and_its_key_gets_it_later() {
    let (server, daemon) = asleep();
    let key = "idempotency-key: k\r\n";
    let request = || daemon.post_with(ECHO, key, b"{}");
    let (first, held) = thread::scope(|scope| {
        let began = Instant::now();
        let first = scope.spawn(request);
        eventually("the call runs", || server.count("tools/call") == 1);
        let held = lock(&daemon.directory().join("pillion.db-shm"));
        let first = first.join().unwrap();
        let took = began.elapsed();
        assert!(took <= TIMEOUT + ALLOWANCE, "{took:?} {first:?}");
        (first, held)
    });
    let first = first.json();
    assert_json!(first["result"]["error_code"], "timeout");
    for _ in 0..3 {
        let began = Instant::now();
        let again = request();
        assert_matches!(again.status, 409 | 503);
        let took = began.elapsed();
        assert!(took <= TIMEOUT + ALLOWANCE, "{took:?}");
        thread::sleep(Duration::from_secs(1));
    }
    drop(held);
    let again = eventually_some("the response is stored", || {
        Some(request()).filter(|reply| reply.status == 200)
    });
    assert_eq!(again.json(), first);
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn a_sidecar_that_stops_stores_the_response_of_a_key_first() {
    let (server, mut daemon) = asleep();
    let key = "idempotency-key: k\r\n";
    let socket = daemon.socket.clone();
    let first = thread::spawn(move || socket.post_with(ECHO, key, b"{}"));
    eventually("the call runs", || server.count("tools/call") == 1);
    let held = lock(&daemon.directory().join("pillion.db-shm"));
    let first = first.join().unwrap().json();
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    thread::sleep(Duration::from_secs(2));
    drop(held);
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
    let daemon = daemon.again();
    let again = daemon.post_with(ECHO, key, b"{}");
    assert_eq!(again.json(), first);
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn a_list_waits_for_one_request_to_a_server_and_a_chat_waits_for_half_its_timeout() {
    let server = McpServer::echo();
    server.set_mood(Mood::Asleep);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let llm = runtime.block_on(FakeLlm::start([LlmResponse::text("Hello.")]));
    let far = |timeouts: &str| server_entry("far", &server.url, timeouts);
    let lists = far("[mcp]\ndiscovery_timeout_ms = 2000\nretry_after_ms = 0\n");
    let daemon = Daemon::with_config(&lists);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let began = Instant::now();
                let listed = daemon.get("/api/v1/tools/").json();
                let took = began.elapsed();
                assert!(took < Duration::from_millis(3_300), "{took:?}");
                assert_json!(listed["unavailable_servers"][0]["label"], "far");
            });
            thread::sleep(Duration::from_millis(200));
        }
    });
    let toml = crate::chat::config(&llm, &far("[chat]\ntimeout_ms = 3000\n"));
    let daemon = Daemon::with_config(&toml);
    let began = Instant::now();
    let response = daemon.post("/api/v1/chat", r#"{"message": "Hi"}"#).json();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?} {response}");
    assert_json!(response["content"], "Hello.");
}

#[test]
fn a_sidecar_is_soon_not_ready_if_its_store_or_its_results_cannot_be_written() {
    let daemon = Daemon::start();
    let ready = || {
        let began = Instant::now();
        let ready = daemon.get("/readyz");
        let took = began.elapsed();
        assert!(took < Duration::from_millis(1_700), "{took:?}");
        ready
    };
    eventually("it is ready", || ready().status == 200);
    let results = daemon.directory().join("results");
    // The directory is created with the first result or check.
    std::fs::remove_dir_all(&results).unwrap();
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(ready().status, 200);
    std::fs::remove_dir_all(&results).unwrap();
    std::fs::write(&results, "").unwrap();
    eventually("the directory is checked", || ready().status == 503);
    let response = ready().json();
    assert_eq!(response["status"], "store_unavailable");
    assert_contains!(response["store_error"].text(), "results cannot be stored");
    std::fs::remove_file(&results).unwrap();
    eventually("it is ready again", || ready().status == 200);

    let held = lock(&daemon.directory().join("pillion.db-shm"));
    eventually("the lock is noticed", || ready().status == 503);
    drop(held);
    eventually("the store is ready again", || ready().status == 200);
}
