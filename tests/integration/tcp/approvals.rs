//! Which principal an approval belongs to, and who sees it.

use super::*;
use crate::approvals::{approval_id, decide};

#[test]
fn g3_claiming_a_user_gives_no_access_to_the_users_approval() {
    let server = Server::start("[approvals]\npolicy = \"always-ask\"");
    let call = |token: &str| server.calculate(token, "alice", "6 * 7");
    let id = approval_id(&call(RUNNER));
    assert_eq!(approval_id(&call(RUNNER)), id);
    assert_eq!(decide(&server.daemon.socket, &id, "approve").status, 200);
    for other in [FEW, HERS] {
        assert_ne!(approval_id(&call(other)), id);
    }
    let result = call(RUNNER);
    assert_json!(result["data"]["result"], 42);
}

#[test]
fn g3_waiting_callers_are_limited_for_each_principal() {
    let server =
        Server::start("[approvals]\npolicy = \"always-ask\"\nmax_waiting = 2\nmax_wait_ms = 60000");
    let server = &server;
    let call = |token: &str, expression: &str| {
        let run = "POST /api/v1/tools/execute/calculator?wait_ms=60000";
        let body = json!({"expression": expression}).to_string();
        server.reply(token, run, "", &body).json()["result"].clone()
    };
    let pending = || {
        let list = "/api/v1/approvals?status=pending";
        let list = server.daemon.get(list).json();
        let ids = list["approvals"].texts("id").into_iter();
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call(RUNNER, "1 + 1"));
        let second = scope.spawn(|| call(RUNNER, "1 + 2"));
        eventually("two callers wait", || pending().len() == 2);
        let other = scope.spawn(|| call(FEW, "1 + 3"));
        eventually("another token's caller waits", || pending().len() == 3);
        // Two callers already wait, so this call returns the approval's ID at once.
        approval_id(&call(RUNNER, "1 + 4"));
        assert!(!first.is_finished() && !second.is_finished() && !other.is_finished());
        for id in pending() {
            decide(&server.daemon.socket, &id, "approve");
        }
        for waiting in [first, second, other] {
            assert_eq!(waiting.join().unwrap()["success"], true);
        }
    });
}

impl Server {
    /// Calls the calculator as a client that names alice.
    fn calculate(&self, token: &str, user: &str, expression: &str) -> Value {
        let headers = format!("x-pillion-user: {user}\r\n");
        let run = "POST /api/v1/tools/execute/calculator";
        let body = json!({"expression": expression}).to_string();
        self.reply(token, run, &headers, &body).json()["result"].clone()
    }

    fn read(&self, token: &str, path: &str) -> (u16, Value) {
        let reply = self.reply(token, &format!("GET {path}"), "", "");
        (reply.status, reply.json())
    }

    fn list(&self, token: &str, path: &str, list: &str) -> Vec<Value> {
        let (status, response) = self.read(token, path);
        assert_eq!(status, 200, "{response}");
        response[list].items().clone()
    }
}

#[test]
fn l1_a_claimed_user_is_shown_as_a_claim_and_not_to_the_user() {
    let server = Server::start("[approvals]\npolicy = \"always-ask\"");
    let own = approval_id(&server.calculate(HERS, "alice", "1 + 1"));
    let claimed = approval_id(&server.calculate(RUNNER, "alice", "6 * 7"));
    let approvals = "/api/v1/approvals/";
    let about = |entry: &Value| {
        ["user", "user_is_verified", "principal"].map(|member| entry[member].clone())
    };
    let claim = [json!("alice"), json!(false), json!("token:ci")];
    let hers = [json!("alice"), json!(true), json!("token:hers")];
    for token in [HERS, HER_APPROVER] {
        let seen = server.list(token, approvals, "approvals");
        let callers: Vec<_> = seen.iter().map(about).collect();
        assert_eq!(callers, std::slice::from_ref(&hers));
        let calls = server.list(token, "/api/v1/tool-calls/", "calls");
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(calls[0]["principal"], "token:hers");
        assert_eq!(calls[0]["userIsVerified"], true);
        let statistics = server.list(token, "/api/v1/tool-calls/statistics", "tools");
        assert_eq!(statistics[0]["calls"], 1);
        assert_eq!(server.read(token, &format!("{approvals}{own}")).0, 200);
        assert_eq!(server.read(token, &format!("{approvals}{claimed}")).0, 404);
    }
    for token in [READER, APPROVER] {
        let seen = server.list(token, approvals, "approvals");
        let expected = [claim.clone(), hers.clone()];
        assert_eq!(seen.iter().map(about).collect::<Vec<_>>(), expected);
        let calls = server.list(token, "/api/v1/tool-calls/?user=alice", "calls");
        let users: Vec<_> = calls
            .iter()
            .map(|call| json!([call["principal"], call["userIsVerified"]]))
            .collect();
        let expected = [json!(["token:ci", false]), json!(["token:hers", true])];
        assert_eq!(users, expected);
    }
    for command in ["approvals", "calls"] {
        let table = stdout(&server.daemon.run(&[command, "list"]));
        assert_contains!(
            table,
            "alice (claimed)  token:ci",
            "alice            token:hers"
        );
    }
    // Alice cannot approve the call of a token that merely claims to be hers.
    for verdict in ["approve", "deny"] {
        let path = format!("POST {approvals}{claimed}/{verdict}");
        assert_eq!(server.authorized(HER_APPROVER, &path, "").0, 404);
    }
    let path = format!("POST {approvals}{own}/approve");
    assert_eq!(server.authorized(HER_APPROVER, &path, "").0, 200);
    let path = format!("POST {approvals}{claimed}/approve");
    assert_eq!(server.authorized(APPROVER, &path, "").0, 200);
    let result = server.calculate(RUNNER, "alice", "6 * 7");
    assert_json!(result["data"]["result"], 42);
}

#[test]
fn g3_claimed_users_of_a_token_leave_capacity_for_verified_users() {
    let server = Server::start("[approvals]\npolicy = \"always-ask\"\nmax_pending = 8");
    let codes = |token: &str, users: &[&str]| {
        let users = users.iter().map(|user| {
            let result = server.calculate(token, user, &format!("1 + {}", user.len()));
            result["error_code"].text().to_owned()
        });
        users.collect::<Vec<_>>()
    };
    let (waits, full) = ("approval_required", "unavailable");
    // The token may use half of the capacity, whichever users it claims.
    let claims = codes(RUNNER, &["alice", "bob", "carol1", "dave678", "e", "f2"]);
    assert_eq!(claims, [waits, waits, waits, waits, full, full]);
    assert_eq!(codes(HERS, &["alice"]), [waits]);
    // A verified user is another account than the claims of that user.
    assert_eq!(codes(FEW, &["alice"]), [waits]);
    assert_eq!(codes(RUNNER, &["alice"]), [waits], "the call already waits");
}
