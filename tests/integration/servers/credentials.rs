use super::*;

const TOKEN: &str = "hunter2-hunter2-hunter2";

pub(super) fn with_vault() -> Daemon {
    Daemon::with_vault("[log]\nfilter = \"trace\"\n[mcp]\nretry_after_ms = 0\n")
}

fn bearer(far: &McpServer, token: &str) -> Value {
    json!({
        "name": "far", "url": far.url, "retryAttempts": 0,
        "authentication": {"type": "bearer", "token": token},
        "headers": {"x-tenant": token},
    })
}

/// Returns the content of every file in the daemon's directory, including the log and the database.
pub(super) fn all_stored_bytes(daemon: &Daemon) -> Vec<u8> {
    let directory = daemon.socket.parent().unwrap().parent().unwrap();
    let files = std::fs::read_dir(directory).unwrap();
    files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .flat_map(|path| std::fs::read(path).unwrap())
        .collect()
}

pub(super) fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

#[test]
fn l1_a_credential_is_sent_only_to_its_server() {
    let far = McpServer::echo();
    let mut daemon = with_vault();
    let added = add(&daemon, &bearer(&far, TOKEN));
    assert_eq!(added["authentication"], json!({"type": "bearer"}));
    assert_eq!(added["headers"], json!(["x-tenant"]));
    assert!(call(&daemon, "far_echo"));
    let sent = far.credentials();
    let expected = format!("Bearer {TOKEN}");
    assert!(
        !sent.is_empty() && sent.iter().all(|it| *it == expected),
        "{sent:?}"
    );
    // No failure and no response contains a credential.
    far.set_mood(Mood::Ill);
    call(&daemon, "far_echo");
    let mut responses = Vec::new();
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("GET", "/far", Value::Null),
        ("GET", "/far/tools", Value::Null),
        ("POST", "/far/test", Value::Null),
        ("POST", "/refresh", Value::Null),
        ("POST", "", bearer(&far, TOKEN)),
        (
            "PATCH",
            "/far",
            json!({"authentication": {"type": "bearer", "token": [TOKEN]}}),
        ),
        ("PATCH", "/far", json!({"authentication": TOKEN})),
        ("PATCH", "/far", json!({"headers": {"x": [TOKEN]}})),
        (
            "PATCH",
            "/far",
            json!({"headers": {"x": format!("{TOKEN}\n")}}),
        ),
    ] {
        responses.extend(ask(&daemon, method, path, &body).body);
    }
    assert!(
        !holds(&responses, TOKEN),
        "{}",
        String::from_utf8_lossy(&responses)
    );
    let cached = all_stored_bytes(&daemon);
    assert!(holds(&cached, "An MCP server was added") && holds(&cached, "SQLite format 3"));
    assert!(!holds(&cached, TOKEN));
    far.set_mood(Mood::Well);
    let daemon = daemon.restart();
    assert!(call(&daemon, "far_echo"));
    assert!(!holds(&all_stored_bytes(&daemon), TOKEN));
}

#[test]
fn l1_without_a_key_credentials_are_rejected_and_the_setting_is_named() {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    let (status, code, error) = rejection(&daemon, "POST", "", &bearer(&far, TOKEN));
    assert_eq!((status, code.as_str()), (403, "denied"));
    assert_contains!(error, "vault.key_file");
    add(&daemon, &json!({"name": "far", "url": far.url}));
    let change = json!({"headers": {"x-key": TOKEN}});
    let (status, ..) = rejection(&daemon, "PATCH", "/far", &change);
    assert_eq!(status, 403);
    // Testing a server stores nothing.
    let trial = ask(&daemon, "POST", "/test", &bearer(&far, TOKEN)).json();
    assert_json!(trial["reachable"], true);
}

#[test]
fn l1_a_wrong_key_of_the_store_is_an_error_at_start() {
    let far = McpServer::echo();
    let mut daemon = with_vault();
    add(&daemon, &bearer(&far, TOKEN));
    daemon.kill();
    std::fs::write(daemon.key_path(), [7; 32]).unwrap();
    let store = daemon.store_path();
    let config = daemon.config_path();
    let error = failure(
        &pillion(&["serve", "--config", config.to_str().unwrap()])
            .arg("--socket")
            .arg(&daemon.socket)
            .env("PILLION__STORE__LOCATION", store)
            .output()
            .unwrap(),
        2,
    );
    assert_contains!(error, "the store is encrypted with another key");
    // Without a key, other servers work, and the list contains the reason why this one does not.
    std::fs::write(&config, "# No settings.\n").unwrap();
    let daemon = daemon.again();
    let listed = &servers(&daemon)[0];
    assert_eq!(listed["status"], "error");
    assert_contains!(listed["error"].text(), "no key is configured");
}

#[test]
fn l1_a_changed_url_does_not_get_the_credentials_of_the_server() {
    let (far, thief) = (McpServer::echo(), McpServer::echo());
    let daemon = with_vault();
    add(&daemon, &bearer(&far, TOKEN));
    let moved = json!({"url": thief.url});
    let (status, _, error) = rejection(&daemon, "PATCH", "/far", &moved);
    assert_eq!(status, 400);
    assert_contains!(error, "send 'authentication' again");
    let moved =
        json!({"url": thief.url, "authentication": {"type": "none"}, "headers": {"y": "z"}});
    let shown = change(&daemon, "PATCH", "/far", &moved);
    assert_eq!(shown["headers"], json!(["y"]));
    assert!(call(&daemon, "far_echo"));
    assert!(thief.credentials().is_empty());
    // Another path of the same origin keeps the credential.
    change(&daemon, "PATCH", "/far", &bearer(&thief, "fresh-token"));
    let path = format!("{}?v=2", thief.url);
    change(&daemon, "PATCH", "/far", &json!({"url": path}));
    assert!(call(&daemon, "far_echo"));
    assert!(
        thief
            .credentials()
            .contains(&"Bearer fresh-token".to_owned())
    );
}

#[test]
fn l1_changed_and_removed_credentials_are_erased() {
    let far = McpServer::echo();
    let daemon = with_vault();
    add(&daemon, &bearer(&far, TOKEN));
    assert!(call(&daemon, "far_echo"));
    let change_to = json!({"authentication": {"type": "bearer", "token": "second-token"}});
    change(&daemon, "PATCH", "/far", &change_to);
    assert!(call(&daemon, "far_echo"));
    assert_eq!(far.credentials().last().unwrap(), "Bearer second-token");
    let without = change(
        &daemon,
        "PATCH",
        "/far",
        &json!({"authentication": null, "headers": null}),
    );
    assert_eq!(without["authentication"], json!({"type": "none"}));
    assert_eq!(without.get("headers"), None);
    let sent = far.credentials().len();
    assert!(call(&daemon, "far_echo"));
    assert_eq!(far.credentials().len(), sent);
}
