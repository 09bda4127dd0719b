mod allowed_tools;
mod approvals;
mod browsers;
mod chats;
mod connections;
mod console;
mod detached;
mod limits;
mod many_values;
mod memories;
mod packs;
mod slow_readers;
mod stopped;
mod workers;

use std::net::{SocketAddr, TcpStream};

use crate::http::{TCP_TIMEOUT, free_address};
use crate::prelude::*;
use crate::routes::mcp::ACCEPT;

const READER: &str = "reader-reader-reader-1";
const RUNNER: &str = "runner-runner-runner-1";
const HERS: &str = "hers-hers-hers-hers-1";
const APP: &str = "application-application-1";
const FEW: &str = "few-few-few-few-few-1";
const ADMIN: &str = "admin-admin-admin-ad-1";
const OTHER_ADMIN: &str = "other-other-other-ot-1";
const APPROVER: &str = "approver-approver-appr";
const HER_APPROVER: &str = "her-approver-her-appro";

/// A daemon on a free TCP port of this machine, with tokens of scopes `read` and `execute`, a token
/// of alice, a token of an application that may act for any user, a token with a list of tools, two
/// `admin` tokens, one of them with a single tool, and two `approve` tokens, one of them alice's.
struct Server {
    daemon: Daemon,
    address: SocketAddr,
}

impl Server {
    fn start(more: &str) -> Self {
        let (daemon, address) = Daemon::with_tokens(&tokens(), more);
        Self { daemon, address }
    }

    /// Kills the sidecar, and starts another one with the same configuration.
    fn restart(&mut self) {
        self.daemon.kill();
        self.daemon = self.daemon.again_with(&[("TOKENS", &tokens())]);
        eventually("it listens", || TcpStream::connect(self.address).is_ok());
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TCP_TIMEOUT)).unwrap();
        stream
    }

    /// Sends one request with these header lines. Returns status, head and body.
    fn send(&self, request: &str, headers: &str, body: &str) -> (u16, String, String) {
        let reply = http::send_over_tcp(self.address, request, headers, body);
        (reply.status, reply.head.clone(), reply.text())
    }

    /// Sends a request with a token and further headers. Returns the response.
    fn reply(&self, token: &str, request: &str, headers: &str, body: &str) -> http::Reply {
        http::send_with_token(self.address, token, request, headers, body)
    }

    /// Sends a stateless request to `/mcp` with a token. Returns the response.
    fn mcp(&self, token: &str, method: &str, params: Value) -> Value {
        let (headers, body) = stateless(method, params, json!({}));
        self.reply(token, "POST /mcp", &headers, &body.to_string())
            .json()
    }

    /// Sends a request like [`send`](Self::send), with this token and the host of this machine.
    fn authorized(&self, token: &str, request: &str, body: &str) -> (u16, String, String) {
        let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n");
        self.send(request, &headers, body)
    }
}

/// Returns the tokens in the format of the environment variable.
fn tokens() -> String {
    format!(
        "watch read {READER}; ci execute {RUNNER}; hers execute {HERS} user=alice; \
         app execute {APP} any-user; few execute {FEW} tools=calc*,get_time,far_r*; \
         admin admin {ADMIN}; other admin {OTHER_ADMIN} tools=calculator; \
         approver approve {APPROVER}; aide approve {HER_APPROVER} user=alice"
    )
}

#[test]
fn l3_tcp_accepts_requests_with_a_token_within_its_scope() {
    let server = Server::start("");
    let (status, head, body) = server.send("GET /api/v1/tools/", "host: localhost\r\n", "");
    assert_eq!(status, 401, "{head}");
    assert_contains!(
        head,
        "www-authenticate: bearer",
        "content-type: application/problem+json"
    );
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(problem["status"], 401);
    assert_eq!(problem["error_code"], "denied");

    let run = "POST /api/v1/tools/execute/calculator";
    let arguments = "{\"expression\": \"6 * 7\"}";
    assert_eq!(server.authorized(READER, "GET /api/v1/tools/", "").0, 200);
    assert_eq!(server.authorized(READER, run, arguments).0, 403);
    let (status, _, body) = server.authorized(RUNNER, run, arguments);
    assert_eq!(status, 200);
    assert_contains!(body, "\"result\":42");
    let wrong = server.authorized("wrong-wrong-wrong-wrong", run, arguments);
    assert_eq!(wrong.0, 401);
    // The socket needs no token.
    let reply = server.daemon.get("/api/v1/tools/");
    assert_eq!(reply.status, 200);
    // The log contains neither tokens nor their hashes, but the names of the tokens.
    let log = server.daemon.log();
    assert_lacks!(log, RUNNER, "wrong-wrong");
    assert_contains!(log, "\"client\":\"ci\"");
}

/// Returns the header lines of a request with that token to `/mcp` that names alice.
fn as_alice(token: &str, more: &str) -> String {
    format!("host: localhost\r\nauthorization: Bearer {token}\r\nx-pillion-user: alice\r\n{more}")
}

#[test]
fn l1_claiming_a_user_gives_no_access_to_the_users_mcp_session() {
    let server = Server::start("");
    let hello = hello("2025-11-25", json!({}));
    let (status, head, body) = server.send("POST /mcp", &as_alice(APP, ACCEPT), &hello.to_string());
    assert_eq!(status, 200, "{body}");
    let (_, rest) = head.split_once("mcp-session-id: ").unwrap();
    let id = rest.lines().next().unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let say = |token: &str, request: &str, id: &str| {
        let headers = as_alice(token, &format!("{ACCEPT}mcp-session-id: {id}\r\n"));
        let (status, _, body) = server.send(request, &headers, &ping);
        (status, body)
    };
    for request in ["POST /mcp", "GET /mcp", "DELETE /mcp"] {
        let unknown = say(APP, request, "0192d5a0-0000-7000-8000-000000000000");
        assert_eq!(unknown.0, 404, "{}", unknown.1);
        for other in [RUNNER, HERS] {
            assert_eq!(say(other, request, id), unknown, "{request}");
        }
    }
    // A caller over the socket may name any user, but cannot use a session that it did not open.
    let headers = format!("{ACCEPT}mcp-session-id: {id}\r\nx-pillion-user: alice\r\n");
    let socket = &server.daemon.socket;
    let reply = socket.post_with("/mcp", &headers, ping.as_bytes());
    assert_eq!(reply.status, 404, "{reply:?}");
    assert_eq!(say(APP, "POST /mcp", id).0, 200);
}

#[test]
fn l1_claiming_a_user_gives_no_access_to_the_users_input_request() {
    let server = Server::start("[approvals]\npolicy = \"always-ask\"\nelicit_from = \"all\"");
    let ask = |token: &str, more: Value| {
        let mut params = json!({"name": "calculator", "arguments": {"expression": "6 * 7"}});
        let members = more.as_object().cloned().unwrap();
        params.as_object_mut().unwrap().extend(members);
        let (headers, body) = stateless("tools/call", params, json!({"elicitation": {}}));
        let (_, _, body) = server.send("POST /mcp", &as_alice(token, &headers), &body.to_string());
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let pending = ask(APP, json!({}))["result"].clone();
    assert_json!(pending["resultType"], "input_required");
    let response = |state: &Value| {
        json!({
            "requestState": state,
            "inputResponses": {"question": {"action": "accept", "content": {"decision": "approve"}}},
        })
    };
    let unknown_state = json!("pillion:0192d5a0-0000-7000-8000-000000000000");
    let unknown = ask(APP, response(&unknown_state));
    assert_json!(unknown["error"]["code"], -32602);
    let state = &pending["requestState"];
    for other in [RUNNER, HERS] {
        assert_eq!(ask(other, response(state)), unknown);
    }
    let result = ask(APP, response(state));
    assert_json!(result["result"]["structuredContent"]["data"]["result"], 42);
}

#[test]
fn l3_pages_of_other_origins_and_hosts_are_refused() {
    let server = Server::start("");
    let token = format!("authorization: Bearer {RUNNER}\r\n");
    let headers = format!("host: evil.example\r\n{token}");
    let (status, head, body) = server.send("GET /metrics", &headers, "");
    assert_eq!(status, 403, "{head}");
    assert_contains!(head, "application/problem+json");
    assert_contains!(body, "\"title\":\"Forbidden\"");
    let headers = format!("host: localhost\r\norigin: http://evil.example\r\n{token}");
    assert_eq!(server.send("GET /metrics", &headers, "").0, 403);
    let headers = format!("host: localhost\r\norigin: http://localhost\r\n{token}");
    assert_eq!(server.send("GET /metrics", &headers, "").0, 200);
}

#[test]
fn l3_a_configured_origin_may_use_mcp() {
    let server = Server::start("allowed_origins = [\"https://page.example\"]");
    let (headers, body) = stateless("tools/list", json!({}), json!({}));
    let from = |origin: &str| {
        let headers = format!("origin: {origin}\r\n{headers}");
        let reply = server.reply(RUNNER, "POST /mcp", &headers, &body.to_string());
        reply.status
    };
    assert_eq!(from("https://page.example"), 200);
    assert_eq!(from("http://localhost"), 200, "our own");
    assert_eq!(from("https://evil.example"), 403);
}

#[test]
fn l3_the_health_check_needs_no_token_and_has_no_details() {
    let server = Server::start("");
    let here = "host: localhost\r\n";
    assert_eq!(server.send("GET /healthz", here, "").0, 200);
    let (status, _, body) = server.send("GET /readyz", here, "");
    assert_eq!((status, body.as_str()), (200, "{\"status\":\"ready\"}"));
}

#[test]
fn l3_public_tcp_addresses_and_tcp_without_tokens_are_rejected_at_start() {
    for (toml, expected) in [
        (
            "[tcp]\nlisten = \"0.0.0.0:7420\"\ntokens_env = \"T\"",
            "tcp.allow_remote",
        ),
        (
            "[tcp]\nlisten = \"127.0.0.1:0\"",
            "tcp.tokens_env or tcp.tokens_file",
        ),
        (
            "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_env = \"T\"",
            "variable T is not set",
        ),
        (
            "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"/nowhere\"",
            "/nowhere",
        ),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), toml).unwrap();
        let output = pillion(&["serve", "--config"]).arg(file.path()).output();
        assert_contains!(failure(&output.unwrap(), 2), expected);
    }
}

#[test]
fn heads_that_are_too_long_or_have_too_many_headers_are_refused() {
    let server = Server::start("[http]\nmax_header_bytes = 8192\nmax_headers = 20");
    let long = format!("host: localhost\r\nx-long: {}\r\n", "x".repeat(20_000));
    assert_eq!(server.send("GET /healthz", &long, "").0, 431);
    let many: String = (0..30).map(|n| format!("x-{n}: y\r\n")).collect();
    let many = format!("host: localhost\r\n{many}");
    assert_eq!(server.send("GET /healthz", &many, "").0, 431);
    let here = "host: localhost\r\n";
    assert_eq!(server.send("GET /healthz", here, "").0, 200);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let server = Server::start("[http]\nwrite_timeout_ms = 300");
    let mut stream = server.connect();
    let request = format!(
        "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {READER}\r\n\r\n"
    );
    // Responses accumulate until all buffers are full.
    let timeout = Some(Duration::from_secs(1));
    stream.set_write_timeout(timeout).unwrap();
    while stream.write_all(request.repeat(200).as_bytes()).is_ok() {}
    server.daemon.wait_for_log("the client stopped reading");
    let (_, _, metrics) = server.authorized(READER, "GET /metrics", "");
    let line = "pillion_connections_accepted_total{transport=\"tcp\",outcome=\"cut_off\"} 1";
    assert_contains!(metrics, line);
}

#[test]
fn slow_tcp_clients_do_not_use_up_connections_of_the_socket() {
    let server = Server::start("max_connections = 1");
    let _idle = server.connect();
    std::thread::sleep(Duration::from_millis(200));
    let reply = server.daemon.get("/healthz");
    assert_eq!(reply.status, 200);
}
