//! Which principal an approval belongs to.

use serde_json::{Value, json};

use super::{FEW, HERS, RUNNER, Server};
use crate::approvals::{asked, decide};

#[test]
fn g3_claiming_a_user_gives_no_access_to_the_users_approval() {
    let server = Server::start("[approvals]\npolicy = \"always-ask\"");
    let body = json!({"expression": "6 * 7"}).to_string();
    let call = |token: &str| {
        let headers = format!(
            "host: localhost\r\nauthorization: Bearer {token}\r\nx-pillion-user: alice\r\n"
        );
        let run = "POST /api/v1/tools/execute/calculator";
        let (_, _, answer) = server.send(run, &headers, &body);
        serde_json::from_str::<Value>(&answer).unwrap()["result"].clone()
    };
    let id = asked(&call(RUNNER));
    assert_eq!(asked(&call(RUNNER)), id);
    assert_eq!(decide(&server.daemon.socket, &id, "approve").status, 200);
    for other in [FEW, HERS] {
        assert_ne!(asked(&call(other)), id);
    }
    let result = call(RUNNER);
    assert_eq!(result["data"]["result"], 42, "{result}");
}

#[test]
fn g3_waiting_callers_are_limited_for_each_principal() {
    let server =
        Server::start("[approvals]\npolicy = \"always-ask\"\nmax_waiting = 2\nmax_wait_ms = 60000");
    let server = &server;
    let call = |token: &str, expression: &str| {
        let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n");
        let run = "POST /api/v1/tools/execute/calculator?wait_ms=60000";
        let body = json!({"expression": expression}).to_string();
        let (_, _, answer) = server.send(run, &headers, &body);
        serde_json::from_str::<Value>(&answer).unwrap()["result"].clone()
    };
    let pending = || {
        let list = "/api/v1/approvals?status=pending";
        let list = crate::http::get(&server.daemon.socket, list).json();
        let ids = list["approvals"].as_array().unwrap().iter();
        ids.map(|approval| approval["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call(RUNNER, "1 + 1"));
        let second = scope.spawn(|| call(RUNNER, "1 + 2"));
        crate::program::eventually("two callers wait", || pending().len() == 2);
        let other = scope.spawn(|| call(FEW, "1 + 3"));
        crate::program::eventually("another token's caller waits", || pending().len() == 3);
        // Two callers already wait, so this call returns the approval's id at once.
        asked(&call(RUNNER, "1 + 4"));
        assert!(!first.is_finished() && !second.is_finished() && !other.is_finished());
        for id in pending() {
            decide(&server.daemon.socket, &id, "approve");
        }
        for waiting in [first, second, other] {
            assert_eq!(waiting.join().unwrap()["success"], true);
        }
    });
}
