//! Which account the calls of a token count toward.

use super::*;

/// Makes a call on behalf of `user`, and returns its error code if it failed.
fn code(server: &Server, token: &str, user: &str) -> Option<String> {
    let headers =
        format!("host: localhost\r\nauthorization: Bearer {token}\r\nx-pillion-user: {user}\r\n");
    let path = "POST /api/v1/tools/execute/calculator";
    let (status, _, body) = server.send(path, &headers, r#"{"expression": "1 + 1"}"#);
    assert_eq!(status, 200, "{body}");
    let response: Value = serde_json::from_str(&body).unwrap();
    response["result"]["error_code"].as_str().map(str::to_owned)
}

#[test]
fn c7_claimed_users_of_a_token_count_as_the_token() {
    let mut server = Server::start("[tools.calculator]\nrate_limit = { per_minute = 3 }\n");
    let limited = Some("rate_limited".to_owned());
    let claims = |server: &Server, names: &[&str]| {
        let codes = names.iter().map(|name| code(server, RUNNER, name));
        codes.collect::<Vec<_>>()
    };
    assert_eq!(claims(&server, &["alice", "bob"]), [None, None]);
    server.restart();
    let names = ["carol", "dave", "alice"];
    let codes = claims(&server, &names);
    assert_eq!(codes, [None, limited.clone(), limited.clone()]);
    // None of these calls counts toward alice's own limit.
    assert_eq!(code(&server, HERS, "alice"), None);
    assert_eq!(code(&server, APP, "alice"), None);
    let socket = &server.daemon.socket;
    let path = "/api/v1/tools/execute/calculator";
    let call = || {
        let (headers, body) = ("X-Pillion-User: alice\r\n", r#"{"expression": "1 + 1"}"#);
        let reply = socket.post_with(path, headers, body.as_bytes());
        reply.json()["result"]["error_code"].clone()
    };
    assert_eq!(call(), Value::Null);
    assert_eq!(call(), "rate_limited");
    assert_eq!(code(&server, APP, "alice"), limited);
}
