//! The console on the TCP listener: sign-in with a token, scopes, and requests that a browser of another
//! site could be made to send.

use super::*;

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";

/// A server whose TCP listener serves the console.
fn start(settings: &str) -> Server {
    Server::start(&format!("[console]\ntcp = true\n{settings}"))
}

impl Server {
    fn origin(&self) -> String {
        format!("host: {0}\r\norigin: http://{0}\r\n", self.address)
    }

    /// Signs in with a token. Returns the header with the session's cookie.
    fn sign_in(&self, token: &str) -> String {
        let body = format!("token={token}");
        let head = format!(
            "POST /console/sign-in HTTP/1.1\r\n{FORM}{}content-length: {}\r\n\r\n",
            self.origin(),
            body.len()
        );
        // Sent without `send`, which returns the head in lower case: the cookie has capitals.
        let mut stream = self.connect();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        let response = String::from_utf8_lossy(&bytes[..count]).into_owned();
        assert_starts_with!(response, "HTTP/1.1 303");
        let (_, after) = response.split_once("set-cookie: ").unwrap();
        let cookie = after.lines().next().unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        format!("cookie: {}\r\n", cookie.split(';').next().unwrap())
    }

    fn page(&self, cookie: &str, path: &str) -> (u16, String) {
        let headers = format!("host: {}\r\n{cookie}", self.address);
        let (status, _, body) = self.send(&format!("GET /console/{path}"), &headers, "");
        (status, body)
    }
}

/// Returns the CSRF token of a page's forms.
fn csrf_token(page: &str) -> &str {
    let (_, after) = page.split_once("name=\"csrf\" value=\"").unwrap();
    after.split_once('"').unwrap().0
}

#[test]
fn l3_the_console_is_not_served_over_tcp_unless_configured() {
    let server = Server::start("");
    for request in [
        "GET /console/home",
        "GET /console/sign-in",
        "POST /console/sign-in",
    ] {
        let (status, head, _) =
            server.send(request, &format!("{FORM}{}", server.origin()), "token=x");
        assert_eq!(status, 404, "{request}: {head}");
    }
}

#[test]
fn l3_a_session_has_the_scope_of_its_token() {
    let server = start("");
    let reader = server.sign_in(READER);
    let (status, page) = server.page(&reader, "tools/calculator");
    assert_eq!(status, 200, "{page}");
    assert_contains!(page, "does not include the scope 'execute'");
    let body = format!(
        "csrf={}&json=%7B%22expression%22%3A%221%22%7D",
        csrf_token(&page)
    );
    let headers = format!("{FORM}{}{reader}", server.origin());
    let (status, _, page) = server.send("POST /console/tools/calculator", &headers, &body);
    assert_eq!(status, 403, "{page}");
    assert_contains!(page, "does not include the scope 'execute'");
    let (status, _) = server.page(&reader, "servers/new");
    assert_eq!(status, 403);

    let runner = server.sign_in(RUNNER);
    let (_, page) = server.page(&runner, "tools/calculator");
    let body = format!(
        "csrf={}&json=%7B%22expression%22%3A%226*7%22%7D",
        csrf_token(&page)
    );
    let headers = format!("{FORM}{}{runner}", server.origin());
    let (status, _, page) = server.send("POST /console/tools/calculator", &headers, &body);
    assert_eq!(status, 200, "{page}");
    assert_contains!(page, "42");
    // The CSRF token of another session is not accepted.
    let headers = format!("{FORM}{}{}", server.origin(), server.sign_in(RUNNER));
    let (status, _, page) = server.send("POST /console/tools/calculator", &headers, &body);
    assert_eq!(status, 403, "{page}");
}

#[test]
fn l3_a_token_with_a_list_of_tools_sees_no_other_tool_in_the_console() {
    let server = start("");
    let few = server.sign_in(FEW);
    let (_, page) = server.page(&few, "tools");
    assert_contains!(page, "get_time");
    assert_lacks!(page, "roll_dice");
    assert_eq!(server.page(&few, "tools/roll_dice").0, 404);
}

#[test]
fn l3_a_foreign_host_origin_or_token_opens_no_page() {
    let server = start("");
    let cookie = server.sign_in(ADMIN);
    for headers in [
        "host: attacker.example\r\n".to_owned(),
        format!(
            "host: {}\r\norigin: http://attacker.example\r\n",
            server.address
        ),
    ] {
        let (status, head, _) = server.send("GET /console/home", &format!("{headers}{cookie}"), "");
        assert_eq!(status, 403, "{head}");
    }
    // A bearer token is not a session, and the headers of a forwarding application are ignored.
    for header in [
        format!("authorization: Bearer {ADMIN}\r\n"),
        "x-pillion-console-user: eve\r\nx-pillion-console-csrf: 01234567890123456789\r\n"
            .to_owned(),
    ] {
        let headers = format!("host: {}\r\n{header}", server.address);
        let (status, head, _) = server.send("GET /console/home", &headers, "");
        assert_eq!(status, 303, "{head}");
    }
    let headers = format!("{FORM}{}", server.origin());
    let (status, _, page) = server.send("POST /console/sign-in", &headers, "token=unknown");
    assert_eq!(status, 403, "{page}");
}

#[test]
fn l3_a_read_only_console_changes_nothing() {
    let server = start("read_only = true");
    let admin = server.sign_in(ADMIN);
    let (status, page) = server.page(&admin, "tools/calculator");
    assert_eq!(status, 200, "{page}");
    let body = format!(
        "csrf={}&json=%7B%22expression%22%3A%221%22%7D",
        csrf_token(&page)
    );
    let headers = format!("{FORM}{}{admin}", server.origin());
    for path in [
        "tools/calculator",
        "approvals/x",
        "servers",
        "servers/x/remove",
    ] {
        let (status, _, page) = server.send(&format!("POST /console/{path}"), &headers, &body);
        assert_eq!(status, 403, "{path}: {page}");
        assert_contains!(page, "read-only");
    }
}

#[test]
fn l3_a_sign_in_link_works_once() {
    let server = start("");
    let output = server
        .daemon
        .run(&["console", "--link", "http://console", "--user", "ada"]);
    let link = success(&output);
    let path = link.trim().strip_prefix("http://console").unwrap();
    let headers = format!("host: {}\r\n", server.address);
    assert_eq!(server.send(&format!("HEAD {path}"), &headers, "").0, 200);
    assert_eq!(server.send(&format!("GET {path}"), &headers, "").0, 200);
    assert_eq!(server.send(&format!("GET {path}"), &headers, "").0, 403);
    // A session of a link that a token has created would outlive the token.
    let (status, _, body) = server.authorized(ADMIN, "POST /api/v1/console/links", "");
    assert_eq!(status, 403, "{body}");
}

#[test]
fn l3_a_token_of_one_user_runs_no_tool_for_another_user_in_the_console() {
    let server = start("");
    let hers = server.sign_in(HERS);
    let (_, page) = server.page(&hers, "tools/calculator");
    for (user, expected_status) in [("bob", 403), ("alice", 200), (&*"u".repeat(300), 400)] {
        let body = format!(
            "csrf={}&user={user}&json=%7B%22expression%22%3A%221%22%7D",
            csrf_token(&page)
        );
        let headers = format!("{FORM}{}{hers}", server.origin());
        let (status, _, page) = server.send("POST /console/tools/calculator", &headers, &body);
        assert_eq!(status, expected_status, "{page}");
    }
}

#[test]
fn l3_a_browser_without_a_session_can_send_no_long_form() {
    let server = start("");
    let body = "a&".repeat(100_000);
    let headers = format!("{FORM}{}", server.origin());
    for (path, expected_status) in [("sign-in", 400), ("tools/calculator", 401)] {
        let (status, _, page) = server.send(&format!("POST /console/{path}"), &headers, &body);
        assert_eq!(status, expected_status, "{path}: {page}");
    }
    let admin = server.sign_in(ADMIN);
    let headers = format!("{headers}{admin}");
    let (status, _, page) = server.send("POST /console/tools/calculator", &headers, &body);
    assert_eq!(status, 400, "{page}");
    assert_contains!(page, "too many fields");
}

#[test]
fn l3_the_connection_of_a_signed_in_browser_stays_open() {
    let (daemon, address) = Daemon::with_tokens(
        &tokens(),
        "authentication_timeout_ms = 300\n[console]\ntcp = true\n",
    );
    let server = Server { daemon, address };
    let cookie = server.sign_in(READER);
    let mut events = server.connect();
    let request = format!(
        "GET /console/live?types=call HTTP/1.1\r\n{}{cookie}\r\n",
        server.origin()
    );
    events.write_all(request.as_bytes()).unwrap();
    let mut bytes = [0; 1024];
    let count = events.read(&mut bytes).unwrap();
    assert_starts_with!(String::from_utf8_lossy(&bytes[..count]), "HTTP/1.1 200");
    thread::sleep(Duration::from_secs(1));
    server.authorized(
        RUNNER,
        "POST /api/v1/tools/execute/calculator",
        "{\"expression\": \"1\"}",
    );
    let count = events.read(&mut bytes).unwrap();
    assert_contains!(String::from_utf8_lossy(&bytes[..count]), "event: change");
}

#[test]
fn l3_a_session_and_its_stream_end_when_the_token_is_revoked() {
    let address = free_address();
    let toml =
        format!("[tcp]\nlisten = \"{address}\"\ntokens_store = true\n[console]\ntcp = true\n");
    let daemon = Daemon::with_config(&toml);
    let token = connections::tokens(&daemon, &["create", "bad", "--scope", "read"]);
    let server = Server { daemon, address };
    let cookie = server.sign_in(&token);
    assert_eq!(server.page(&cookie, "home").0, 200);
    let mut events = server.connect();
    events
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!(
        "GET /console/live?types=call HTTP/1.1\r\nconnection: close\r\n{}{cookie}\r\n",
        server.origin()
    );
    events.write_all(request.as_bytes()).unwrap();
    connections::tokens(&server.daemon, &["revoke", "bad"]);
    assert_eq!(server.page(&cookie, "home").0, 303);
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    assert_contains!(rest, "text/event-stream");
}
