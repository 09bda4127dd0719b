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
    for (user, expected_status) in [("bob", 400), ("alice", 200), (&*"u".repeat(300), 400)] {
        let body = format!(
            "csrf={}&json-user={user}&json=%7B%22expression%22%3A%221%22%7D",
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

#[test]
fn l3_a_token_creates_no_token_with_more_permission_in_the_console() {
    let server = start("");
    let create = |cookie: &str, csrf: &str, values: &str| {
        let body = format!("csrf={csrf}&{values}");
        let headers = format!("{FORM}{}{cookie}", server.origin());
        let (status, _, page) = server.send("POST /console/access/new", &headers, &body);
        (status, page)
    };
    let few = server.sign_in(OTHER_ADMIN);
    let (status, page) = server.page(&few, "access/new");
    assert_eq!(status, 200, "{page}");
    let csrf = csrf_token(&page);
    for (tools, expected_status) in [
        ("", 403),
        ("roll_dice", 403),
        ("*", 403),
        ("calculator", 200),
    ] {
        let values = format!("name=child&scope=admin&users=none&user=&tools={tools}&expiry=1");
        let (status, page) = create(&few, csrf, &values);
        assert_eq!(status, expected_status, "{tools}: {page}");
        let shows_token = page.contains("id=\"token\"");
        assert_eq!(shows_token, expected_status == 200, "{tools}: {page}");
    }
    let values = "name=child&scope=read&users=none&tools=calculator";
    let (status, page) = create(&few, csrf, values);
    assert_eq!(status, 409, "{page}");
    // Without the scope `admin`, there are no tokens to see and none to create.
    for token in [READER, RUNNER, APPROVER, HER_APPROVER] {
        let cookie = server.sign_in(token);
        for path in ["access", "access/new", "access/token?name=child"] {
            assert_eq!(server.page(&cookie, path).0, 403, "{path}");
        }
        let (_, page) = server.page(&cookie, "home");
        let values = "name=mine&scope=read&users=none&tools=";
        let (status, page) = create(&cookie, csrf_token(&page), values);
        assert_eq!(status, 403, "{page}");
    }
    let listed = connections::tokens(&server.daemon, &["list"]);
    assert_contains!(listed, "child");
    assert_lacks!(listed, "mine");
}

#[test]
fn l3_a_token_without_execute_sees_no_chats_in_the_console() {
    let server = start("");
    let post = |cookie: &str, csrf: &str, path: &str| {
        let body = format!("csrf={csrf}&message=x&approval=1&decision=approve");
        let headers = format!("{FORM}{}{cookie}", server.origin());
        let (status, ..) = server.send(&format!("POST /console/{path}"), &headers, &body);
        status
    };
    let reader = server.sign_in(READER);
    for path in [
        "chats",
        "chats/new",
        "chats/1",
        "chats/1/parts/0",
        "chats/1/remove",
    ] {
        assert_eq!(server.page(&reader, path).0, 403, "{path}");
    }
    let (_, home) = server.page(&reader, "home");
    assert_lacks!(home, "./chats");
    for path in ["chats", "chats/1", "chats/1/decide", "chats/1/remove"] {
        assert_eq!(post(&reader, csrf_token(&home), path), 403, "{path}");
    }
    let runner = server.sign_in(RUNNER);
    let (status, chats) = server.page(&runner, "chats");
    assert_eq!(status, 200, "{chats}");
    assert_contains!(chats, "[[models]]");
    let status = post(&runner, csrf_token(&chats), "chats/1/decide");
    assert_eq!(status, 403);
}

#[test]
fn l1_the_settings_show_no_secret_and_only_admins_see_and_reload_them() {
    let server = start(
        "[executor]\ntimeout_ms = 4321\n[[mcp_servers]]\nlabel = \"shop\"\nenabled = false\n\
         url = \"https://mcp.invalid/s/swordfish\"\nheaders = { X-Key = \"swordfish\" }\n",
    );
    let reload = |cookie: &str| {
        let (_, home) = server.page(cookie, "home");
        let body = format!("csrf={}", csrf_token(&home));
        let headers = format!("{FORM}{}{cookie}", server.origin());
        let (status, ..) = server.send("POST /console/settings/reload", &headers, &body);
        status
    };
    let reader = server.sign_in(READER);
    assert_eq!(server.page(&reader, "settings").0, 403);
    assert_lacks!(server.page(&reader, "home").1, "./settings");
    assert_eq!(reload(&reader), 403);

    let admin = server.sign_in(ADMIN);
    let (status, page) = server.page(&admin, "settings");
    assert_eq!(status, 200, "{page}");
    assert_contains!(
        page,
        "executor.timeout_ms",
        "4321",
        "mcp_servers[0].headers.X-Key",
        "https://mcp.invalid/…",
        "No reloads since the sidecar started"
    );
    assert_lacks!(page, "swordfish", ADMIN, READER);
    assert!(page.len() < 60 * 1024, "{}", page.len());
    let (_, found) = server.page(&admin, "settings?q=4321");
    assert_contains!(found, "executor.timeout_ms");
    assert_lacks!(found, "mcp_servers[0]");
    assert_eq!(reload(&admin), 303);
    let (_, page) = server.page(&admin, "settings");
    assert_contains!(page, "the console", "applied");
    assert_lacks!(page, "No reloads since the sidecar started", "swordfish");
}

#[test]
fn l3_the_stream_of_a_page_ends_when_the_configuration_is_reloaded() {
    let server = start("");
    let cookie = server.sign_in(READER);
    let mut events = server.connect();
    events
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!(
        "GET /console/live?types=call HTTP/1.1\r\nconnection: close\r\n{}{cookie}\r\n",
        server.origin()
    );
    events.write_all(request.as_bytes()).unwrap();
    let mut bytes = [0; 1024];
    let count = events.read(&mut bytes).unwrap();
    assert_starts_with!(String::from_utf8_lossy(&bytes[..count]), "HTTP/1.1 200");
    server.daemon.signal(Signal::SIGHUP);
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    assert_eq!(server.page(&cookie, "home").0, 200);
}

#[test]
fn l3_the_requests_of_an_open_page_do_not_keep_its_session() {
    let server = start("idle_timeout_ms = 2000");
    let cookie = server.sign_in(READER);
    let update = format!("x-requested-with: console.js\r\n{cookie}");
    eventually("the session has expired", || {
        server.page(&update, "home").0 == 303
    });
    let request = format!(
        "GET /console/live?types=call HTTP/1.1\r\nconnection: close\r\n{}{}\r\n",
        server.origin(),
        server.sign_in(READER)
    );
    let mut events = server.connect();
    events
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    events.write_all(request.as_bytes()).unwrap();
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    assert_starts_with!(rest, "HTTP/1.1 200");
}
