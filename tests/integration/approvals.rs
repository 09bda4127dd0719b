//! Calls that need approval (G1 to G3), in every interface.

mod editing;
mod elicitation;
mod forwarded;
mod policies;

use crate::http::Reply;
use crate::prelude::*;

pub const ALWAYS: &str = "[approvals]\npolicy = \"always-ask\"\n";

/// Calls the calculator as a user. Returns the tool's result.
pub fn calculate(socket: &Path, user: &str, expression: &str, query: &str) -> Value {
    let body = json!({"expression": expression}).to_string();
    let target = format!("/api/v1/tools/execute/calculator{query}");
    let headers = format!("x-pillion-user: {user}\r\n");
    let response = socket.post_with(&target, &headers, body).expect(200);
    assert_json!(response["success"], true);
    response["result"].clone()
}

/// Makes a call that needs approval. Returns the approval's ID.
pub fn request_approval(socket: &Path, user: &str, expression: &str) -> String {
    approval_id(&calculate(socket, user, expression, ""))
}

/// Returns the approval ID of a result.
pub fn approval_id(result: &Value) -> String {
    assert_json!(result["success"], false);
    assert_json!(result["error_code"], "approval_required");
    let id = result["metadata"]["approval_id"].text();
    assert!(result["error"].text().contains(id), "{result}");
    id.to_owned()
}

/// Waits until a call needs approval. Returns the approval's ID.
pub fn wait_for_approval(socket: &Path) -> String {
    eventually_some("a call waits", || {
        let open = socket.get("/api/v1/approvals?status=pending").json();
        open["approvals"][0]["id"].as_str().map(str::to_owned)
    })
}

pub fn decide(socket: &Path, id: &str, verdict: &str) -> Reply {
    socket.post(&format!("/api/v1/approvals/{id}/{verdict}"), "")
}

fn show(socket: &Path, id: &str) -> Value {
    socket.get(&format!("/api/v1/approvals/{id}")).expect(200)["approval"].clone()
}

/// Returns the statuses of the recorded calls, newest first.
fn logged(socket: &Path) -> Vec<String> {
    let calls = socket.recorded("");
    let status = |call: &Value| call["status"].text().to_owned();
    calls.iter().map(status).collect()
}

#[test]
fn g3_a_pending_call_survives_crashes_and_runs_once_when_approved() {
    let mut daemon = Daemon::with_config(ALWAYS);
    let id = request_approval(&daemon.socket, "alice", "6 * 7");
    assert_eq!(logged(&daemon.socket), ["pending"]);
    let mut daemon = daemon.restart();
    assert_eq!(show(&daemon.socket, &id)["status"], "pending");
    // A repeated call shares the pending approval.
    let again = calculate(&daemon.socket, "alice", "6 * 7", "");
    assert_eq!(approval_id(&again), id);
    assert_eq!(logged(&daemon.socket), ["pending"]);

    let decided = decide(&daemon.socket, &id, "approve").json()["approval"].clone();
    assert_eq!(decided["status"], "approved");
    let uid = nix::unistd::getuid();
    assert_eq!(decided["decided_by"], format!("uid:{uid}"));
    assert_eq!(decided["arguments"], json!({"expression": "6 * 7"}));
    let daemon = daemon.restart();
    // A call with other arguments, or of another user, needs another approval.
    assert_ne!(request_approval(&daemon.socket, "alice", "6 * 8"), id);
    assert_ne!(request_approval(&daemon.socket, "bob", "6 * 7"), id);
    let result = calculate(&daemon.socket, "alice", "6 * 7", "");
    assert_json!(result["text"], "42");
    // The log has a single record of the call, from the request for approval to the end.
    let call = daemon.recorded("?status=success")[0]["id"].clone();
    assert_eq!(call, result["metadata"]["record_id"]);
    assert_eq!(call, show(&daemon.socket, &id)["call_id"]);
    assert_eq!(show(&daemon.socket, &id)["status"], "used");
    assert_ne!(request_approval(&daemon.socket, "alice", "6 * 7"), id);
    let expected = ["pending", "pending", "pending", "success"];
    assert_eq!(logged(&daemon.socket), expected);
}

#[test]
fn g3_pending_approvals_are_limited_for_each_user() {
    let daemon = Daemon::with_config(&format!("{ALWAYS}max_pending = 4\n"));
    let ask = |user: &str, number: u32| {
        let expression = format!("{number} + 1");
        let result = calculate(&daemon.socket, user, &expression, "");
        result["error_code"].text().to_owned()
    };
    // Alice may use half of the limit, and Bob half of the rest.
    let codes: Vec<_> = (1..=3).map(|number| ask("alice", number)).collect();
    let waits = "approval_required";
    assert_eq!(codes, [waits, waits, "unavailable"]);
    assert_eq!(ask("bob", 1), waits);
    assert_eq!(ask("bob", 2), "unavailable");
    assert_eq!(ask("carol", 1), waits);
    assert_eq!(ask("dave", 1), "unavailable");
    // A repeated call shares the pending approval, so it is not rejected.
    assert_eq!(ask("alice", 2), waits);
}

#[test]
fn g3_a_denial_is_returned_with_its_reason_and_remains_valid() {
    let daemon = Daemon::with_config(ALWAYS);
    let socket = &daemon.socket;
    let id = request_approval(socket, "alice", "1 + 1");
    let body = json!({"reason": "not on a Sunday"}).to_string();
    let target = format!("/api/v1/approvals/{id}/deny");
    let reply = socket.post_with(&target, "x-pillion-user: carol\r\n", body.as_bytes());
    let denied = reply.json()["approval"].clone();
    let by = denied["decided_by"].text();
    assert_starts_with!(by, "uid:");
    assert_ends_with!(by, " for carol");
    assert_eq!(logged(socket), ["denied"]);
    for _ in 0..2 {
        let result = calculate(socket, "alice", "1 + 1", "");
        assert_eq!(result["success"], false);
        assert_eq!(result["error_code"], "denied");
        let reason = "The call to tool 'calculator' was denied: not on a Sunday";
        assert_eq!(result["error"], reason);
    }
    assert_eq!(logged(socket), ["denied"]);
}

#[test]
fn g3_an_expired_approval_cannot_be_decided_and_is_requested_again() {
    let daemon = Daemon::with_config(&format!("{ALWAYS}expires_after_ms = 300\n"));
    let socket = &daemon.socket;
    let first = request_approval(socket, "alice", "1 + 1");
    let has_expired = |id: &str| show(socket, id)["status"] == "expired";
    eventually("it has expired", || has_expired(&first));
    let late = decide(socket, &first, "approve");
    assert_contains!(late.expect(409)["error"].text(), "expired");
    assert_ne!(request_approval(socket, "alice", "1 + 1"), first);
    // An approval that was not used before it expires is invalid.
    let second = request_approval(socket, "bob", "1 + 1");
    assert_eq!(decide(socket, &second, "approve").status, 200);
    eventually("it has expired", || has_expired(&second));
    assert_ne!(request_approval(socket, "bob", "1 + 1"), second);
    let target = "/api/v1/approvals?status=expired&user=alice";
    let expired = socket.get(target).json();
    let mut listed = expired["approvals"].items().iter();
    assert!(listed.any(|approval| approval["id"] == first));
}

#[test]
fn g3_one_of_two_concurrent_decisions_wins_and_one_of_two_calls_runs() {
    let daemon = Daemon::with_config(ALWAYS);
    let socket = &daemon.socket;
    for round in 0..5 {
        let expression = format!("{round} + 1");
        let id = request_approval(socket, "alice", &expression);
        let verdicts = ["approve", "deny", "approve", "deny"];
        let statuses: Vec<_> = std::thread::scope(|scope| {
            let deciders = verdicts.map(|verdict| {
                let id = &id;
                scope.spawn(move || decide(socket, id, verdict).status)
            });
            deciders.map(|decider| decider.join().unwrap()).into()
        });
        let won = statuses.iter().filter(|status| **status == 200).count();
        let lost = statuses.iter().filter(|status| **status == 409).count();
        assert_eq!((won, lost), (1, 3), "{statuses:?}");
        let is_approved = show(socket, &id)["status"] == "approved";

        let ran = std::thread::scope(|scope| {
            let callers = [(); 4].map(|()| {
                let expression = &expression;
                scope.spawn(move || calculate(socket, "alice", expression, ""))
            });
            let results = callers.map(|caller| caller.join().unwrap());
            let succeeded = results.iter().filter(|result| result["success"] == true);
            succeeded.count()
        });
        assert_eq!(ran, usize::from(is_approved));
    }
}

#[test]
fn g3_two_concurrent_calls_share_one_approval() {
    let daemon = Daemon::with_config(ALWAYS);
    let socket = &daemon.socket;
    let ids = std::thread::scope(|scope| {
        let callers = [(); 6].map(|()| scope.spawn(|| request_approval(socket, "a", "2")));
        callers.map(|caller| caller.join().unwrap())
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn g3_a_caller_may_wait_for_the_decision() {
    let daemon = Daemon::with_config(ALWAYS);
    let socket = &daemon.socket;
    let waiting = |verdict: &str| {
        std::thread::scope(|scope| {
            let sum = format!("len_{verdict} + 1");
            let caller = scope.spawn(move || calculate(socket, "alice", &sum, "?wait_ms=20000"));
            let id = wait_for_approval(socket);
            assert_eq!(decide(socket, &id, verdict).status, 200);
            caller.join().unwrap()
        })
    };
    // The approved call runs, and fails because the calculator does not know the variable.
    assert_eq!(waiting("approve")["error_code"], "invalid_input");
    assert_eq!(waiting("deny")["error_code"], "denied");
    assert_eq!(logged(socket), ["denied", "error"]);
    // Without a decision, the result is the same as without waiting.
    let headers = "x-pillion-approval-wait-ms: 50\r\n";
    let target = "/api/v1/tools/execute/calculator";
    let body = b"{\"expression\": \"3\"}";
    let result = socket.post_with(target, headers, body).json()["result"].clone();
    approval_id(&result);
    let wrong = socket.post("/api/v1/tools/execute/calculator?wait_ms=soon", "{}");
    assert_eq!(wrong.status, 400);
}

#[test]
fn g3_a_stopping_sidecar_releases_waiting_callers() {
    let mut daemon = Daemon::with_config(ALWAYS);
    let socket = daemon.socket.clone();
    let result = std::thread::scope(|scope| {
        let caller = scope.spawn(|| calculate(&socket, "alice", "6 * 7", "?wait_ms=25000"));
        eventually("the call waits", || logged(&socket) == ["pending"]);
        daemon.signal(nix::sys::signal::Signal::SIGTERM);
        caller.join().unwrap()
    });
    let id = approval_id(&result);
    assert!(daemon.wait().success());
    let daemon = daemon.again();
    assert_eq!(decide(&daemon.socket, &id, "approve").status, 200);
    let approved = calculate(&daemon.socket, "alice", "6 * 7", "");
    assert_eq!(approved["text"], "42");
}

#[test]
fn the_beginning_of_an_id_names_a_pending_approval() {
    let daemon = Daemon::with_config(ALWAYS);
    let approvals = |command: &str, id: &str| daemon.run(&["approvals", command, id]);
    let ids = ["1 + 1", "2 + 2"].map(|sum| request_approval(&daemon.socket, "alice", sum));
    let common = ids[0]
        .bytes()
        .zip(ids[1].bytes())
        .take_while(|(one, other)| one == other)
        .count();
    assert!(common >= 8, "{ids:?}");

    let ambiguous = stderr(&approvals("approve", &ids[0][..common]));
    assert_contains!(ambiguous, "several approvals");
    let short = stderr(&approvals("approve", &ids[0][..7]));
    assert_contains!(short, &format!("'{}' (not_found)", &ids[0][..7]));
    success(&approvals("deny", &ids[0][..=common]));
    success(&approvals("approve", &ids[1][..common]));
}

#[test]
fn g3_the_command_line_lists_shows_and_decides_approvals() {
    let daemon = Daemon::with_config(ALWAYS);
    let approvals = |arguments: &[&str]| daemon.run(&[&["approvals"], arguments].concat());
    let id = request_approval(&daemon.socket, "alice", "2 ** 5");
    let table = stdout(&approvals(&["list"]));
    let line = table.lines().nth(1).unwrap();
    for part in ["pending", "calculator", "alice", &id, "2 ** 5"] {
        assert!(line.contains(part), "{table}");
    }
    let approve = ["approve", &id, "--reason", "fine", "--user", "ops"];
    let printed = stdout(&approvals(&approve));
    assert_contains!(printed, "approved by uid:", "for ops");
    let shown = stdout_json(&approvals(&["show", &id]));
    assert_eq!(shown["reason"], "fine");
    assert_eq!(stdout(&approvals(&["list"])).lines().count(), 1);
    let again = approvals(&["deny", &id]);
    assert!(!again.status.success());
    assert_contains!(stderr(&again), "was approved by uid:");
    assert_contains!(stderr(&approvals(&["show", "nothing"])), "not_found");
    let arguments = r#"{"expression": "2 ** 5"}"#;
    let call = ["tools", "call", "calculator", arguments];
    let options = ["--user", "alice", "--wait", "1"];
    let called = daemon.run(&[&call[..], &options].concat());
    assert_eq!(stdout(&called).trim(), "32");
}

#[test]
fn g3_only_a_call_that_needs_an_approval_names_the_command_for_it() {
    let daemon = Daemon::with_config(ALWAYS);
    let call = || {
        let called = daemon.run(&["tools", "call", "calculator", r#"{"expression": "1 + 1"}"#]);
        failure(&called, 1)
    };
    assert_contains!(call(), "(approval_required)", "approve the call with");
    let approvals = daemon.get("/api/v1/approvals").json();
    let id = approvals["approvals"][0]["id"].text();
    success(&daemon.run(&["approvals", "deny", id]));
    let denied = call();
    assert_contains!(denied, "(denied)");
    assert_lacks!(denied, "approve the call with");
}

#[test]
fn g3_the_command_line_shows_hidden_characters() {
    let daemon = Daemon::with_config(ALWAYS);
    let hidden = "2\u{202e} *\u{200b} 3\u{9b}2J\u{7f}\u{e0061}";
    let id = request_approval(&daemon.socket, "alice", hidden);
    let log = daemon.recorded("");
    let call = log[0]["id"].text();
    let printed = |arguments: &[&str]| {
        let text = stdout(&daemon.run(arguments));
        let is_hidden = |c: char| hidden.contains(c) && !c.is_ascii_graphic() && c != ' ';
        assert!(!text.contains(is_hidden), "{text:?}");
        text
    };
    let list = printed(&["approvals", "list"]);
    assert_contains!(list, r"2\u{202e} *\u{200b} 3\u{9b}2J\u{7f}\u{e0061}");
    // The JSON output is complete.
    for arguments in [
        &["approvals", "show", &id][..],
        &["approvals", "list", "--json"],
        &["calls", "show", call],
    ] {
        let text = printed(arguments);
        assert_contains!(text, r"2\u202e *\u200b 3\u009b2J\u007f\udb40\udc61");
        let value: Value = serde_json::from_str(&text).unwrap();
        let of_list = &value["approvals"][0]["arguments"]["expression"];
        let of_one = &value["arguments"]["expression"];
        assert!(of_list == hidden || of_one == hidden, "{value}");
    }
}

#[test]
fn g3_approvals_are_listed_in_pages_and_bad_parameters_are_rejected() {
    let daemon = Daemon::with_config(ALWAYS);
    let socket = &daemon.socket;
    for number in 0..5 {
        request_approval(socket, "alice", &number.to_string());
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let target = format!("/api/v1/approvals?limit=2{after}");
        let page = socket.get(&target).json();
        let ids = page["approvals"].items().iter();
        seen.extend(ids.map(|approval| approval["id"].text().to_owned()));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
    assert_eq!(socket.get("/api/v1/approvals?after=nonsense").status, 400);
    assert_eq!(socket.get("/api/v1/approvals/nothing").status, 404);
    assert_eq!(decide(socket, "nothing", "approve").status, 404);
    let target = format!("/api/v1/approvals/{}/approve", seen[0]);
    assert_eq!(socket.post(&target, "{\"reason\": 7}").status, 400);
    assert_eq!(socket.post(&target, "{").status, 400);
    let long = json!({"reason": "x".repeat(1_001)}).to_string();
    assert_eq!(socket.post(&target, long).status, 400);
}

#[test]
fn g3_the_number_of_pending_approvals_is_limited() {
    let daemon = Daemon::with_config(&format!("{ALWAYS}max_pending = 2\n"));
    let first = request_approval(&daemon.socket, "alice", "1");
    request_approval(&daemon.socket, "bob", "2");
    let result = calculate(&daemon.socket, "carol", "3", "");
    assert_json!(result["error_code"], "unavailable");
    assert_eq!(decide(&daemon.socket, &first, "deny").status, 200);
    request_approval(&daemon.socket, "carol", "3");
}

#[test]
fn g3_a_rate_limited_call_does_not_use_its_approval() {
    let config = format!("{ALWAYS}[tools.calculator]\nrate_limit = {{ per_minute = 1 }}\n");
    let daemon = Daemon::with_config(&config);
    let socket = &daemon.socket;
    for expression in ["1", "2"] {
        let id = request_approval(socket, "alice", expression);
        assert_eq!(decide(socket, &id, "approve").status, 200);
    }
    assert_eq!(calculate(socket, "alice", "1", "")["success"], true);
    let limited = calculate(socket, "alice", "2", "");
    assert_eq!(limited["error_code"], "rate_limited");
    let target = "/api/v1/approvals?status=approved&limit=1";
    let open = socket.get(target).json();
    assert_eq!(open["approvals"][0]["status"], "approved");
    assert_eq!(logged(socket), ["error", "pending", "success"]);
}

#[test]
fn l1_approvers_see_no_credentials() {
    let daemon = Daemon::with_config(ALWAYS);
    let body = json!({"expression": "1", "api_key": "hunter2"}).to_string();
    let reply = daemon.post("/api/v1/tools/execute/calculator", body);
    let id = approval_id(&reply.json()["result"]);
    let shown = show(&daemon.socket, &id);
    let redacted = "[redacted: string, 7 characters]";
    assert_eq!(shown["arguments"]["api_key"], redacted);
    std::thread::sleep(Duration::from_millis(50));
    assert_lacks!(daemon.log(), "hunter2");
}

#[test]
fn f4_a_record_does_not_stay_pending_when_another_call_used_its_approval() {
    let config = format!("{ALWAYS}[tools.calculator]\ncache_ttl_ms = 60000\n");
    let daemon = Daemon::with_config(&config);
    let id = request_approval(&daemon.socket, "alice", "6 * 7");
    assert_eq!(decide(&daemon.socket, &id, "approve").status, 200);
    // A call with an idempotency key needs a separate record, so it does not continue that of the
    // approved call.
    let body = json!({"expression": "6 * 7"}).to_string();
    let target = "/api/v1/tools/execute/calculator";
    let headers = "x-pillion-user: alice\r\nidempotency-key: one\r\n";
    let reply = daemon.post_with(target, headers, body.as_bytes());
    assert_eq!(reply.json()["result"]["success"], true, "{reply:?}");
    assert_eq!(logged(&daemon.socket), ["success", "cancelled"]);
    let cancelled = daemon.recorded("?status=cancelled").remove(0);
    let reason = format!("used approval {id}");
    assert_contains!(cancelled["error"].text(), &reason);
    // A call answered from the cache continues the record of the call that needed approval.
    let id = request_approval(&daemon.socket, "alice", "6 * 7");
    assert_eq!(decide(&daemon.socket, &id, "approve").status, 200);
    let result = calculate(&daemon.socket, "alice", "6 * 7", "");
    assert_json!(result["metadata"]["cached"], true);
    assert_eq!(logged(&daemon.socket), ["success", "success", "cancelled"]);
}

#[test]
fn f4_only_the_record_of_the_first_call_is_pending() {
    let daemon = Daemon::with_config(ALWAYS);
    let id = request_approval(&daemon.socket, "alice", "6 * 7");
    let body = json!({"expression": "6 * 7"}).to_string();
    let target = "/api/v1/tools/execute/calculator";
    for key in ["one", "two"] {
        let headers = format!("x-pillion-user: alice\r\nidempotency-key: {key}\r\n");
        let reply = daemon.post_with(target, &headers, body.as_bytes());
        // All calls share one approval.
        assert_eq!(approval_id(&reply.json()["result"]), id);
    }
    assert_eq!(logged(&daemon.socket), ["error", "error", "pending"]);
    assert_eq!(decide(&daemon.socket, &id, "deny").status, 200);
    assert_eq!(logged(&daemon.socket), ["error", "error", "denied"]);
}

#[test]
fn f4_of_calls_that_wait_for_one_approval_the_one_that_runs_is_recorded() {
    let daemon = Daemon::with_config(ALWAYS);
    let socket = &daemon.socket;
    for round in 0..5 {
        let expression = format!("{round} + 1");
        let body = json!({"expression": expression}).to_string();
        let target = "/api/v1/tools/execute/calculator?wait_ms=20000";
        let results = std::thread::scope(|scope| {
            let callers: Vec<_> = ["", "", "idempotency-key: k\r\n", ""]
                .into_iter()
                .map(|key| {
                    let headers = format!("x-pillion-user: user{round}\r\n{key}");
                    let body = body.as_bytes();
                    scope.spawn(move || socket.post_with(target, &headers, body).json())
                })
                .collect();
            let pending = || {
                let response = socket.get("/api/v1/approvals/?status=pending").json();
                let id = response["approvals"][0]["id"].as_str();
                id.map(str::to_owned)
            };
            eventually("a call waits", || pending().is_some());
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(decide(socket, &pending().unwrap(), "approve").status, 200);
            // A repeated call that arrives after the decision waits for another approval.
            eventually("all calls have ended", || {
                if let Some(id) = pending() {
                    decide(socket, &id, "deny");
                }
                callers.iter().all(|caller| caller.is_finished())
            });
            let ended = callers.into_iter().map(|caller| caller.join().unwrap());
            ended.map(|it| it["result"].clone()).collect::<Vec<_>>()
        });
        let mut succeeded = 0;
        for result in &results {
            assert_json!(result["metadata"]["recorded"], Value::Null);
            let call = socket.record(&result["metadata"]["record_id"]);
            let expected = match result["error_code"].as_str() {
                None => "success",
                Some("denied") => "denied",
                Some(_) => "error",
            };
            assert_eq!(call["status"], expected, "{result}, {call}");
            succeeded += usize::from(expected == "success");
        }
        assert_eq!(succeeded, 1, "{results:?}");
    }
    let unfinished = |status| logged(socket).iter().any(|found| found == status);
    assert!(!unfinished("pending") && !unfinished("running"));
}
