//! What workers learn about the callers of their tools.

use super::*;
use crate::workers::{Worker, greet};

#[test]
fn l1_a_worker_can_distinguish_claimed_and_verified_users() {
    let server = Server::start("");
    Worker::connect(&server.daemon.socket, &greet())
        .serve(|params| params["_meta"]["pillion"].to_string());
    let caller = |response: &Value| {
        let text = response["result"]["text"].text();
        let about: Value = serde_json::from_str(text).unwrap();
        ["user", "claimedUser", "principal"].map(|member| about[member].clone())
    };
    let body = json!({"name": "Ann"}).to_string();
    let call = "POST /api/v1/tools/execute/greet";
    let over_tcp = |token: &str| {
        let headers = format!(
            "host: localhost\r\nauthorization: Bearer {token}\r\nx-pillion-user: alice\r\n"
        );
        let (_, _, response) = server.send(call, &headers, &body);
        caller(&serde_json::from_str(&response).unwrap())
    };
    assert_eq!(
        over_tcp(RUNNER),
        [json!(null), json!("alice"), json!("token:ci")]
    );
    for (token, principal) in [(HERS, "token:hers"), (APP, "token:app")] {
        let expected = [json!("alice"), json!(null), json!(principal)];
        assert_eq!(over_tcp(token), expected);
    }
    // For calls over MCP, workers learn the same.
    let (headers, request) = crate::routes::mcp::stateless(
        "tools/call",
        json!({"name": "greet", "arguments": {"name": "Ann"}}),
        json!({}),
    );
    let headers = super::as_alice(RUNNER, &headers);
    let (_, _, response) = server.send("POST /mcp", &headers, &request.to_string());
    let response: Value = serde_json::from_str(&response).unwrap();
    let text = response["result"]["content"][0]["text"].text();
    let about: Value = serde_json::from_str(text).unwrap();
    assert_json!(about["user"], json!(null));
    assert_json!(about["claimedUser"], "alice");
    // Every process that may open the socket is trusted to name the user.
    let socket = &server.daemon.socket;
    let path = "/api/v1/tools/execute/greet";
    let headers = "x-pillion-user: alice\r\n";
    let reply = socket.post_with(path, headers, body.as_bytes());
    let [user, claimed, _] = caller(&reply.json());
    assert_eq!((user, claimed), (json!("alice"), json!(null)));
}
