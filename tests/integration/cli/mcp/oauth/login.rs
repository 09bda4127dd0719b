//! `pillion auth`: authorizes a sidecar, which cannot prompt a user.

use pillion_testkit::OAuthRules;

use super::*;
use crate::program::vault;

fn auth(daemon: &Daemon, arguments: &[&str]) -> Command {
    daemon.command(&[&["auth"], arguments].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_the_sidecar_is_authorized_for_one_user() {
    let server = FakeOAuth::start(OAuthRules::refreshing());
    let oauth = "authentication = { type = \"oauth\" }\n";
    let entry = |label, more| detected_entry(label, &server.url, &format!("{oauth}{more}"));
    let config = entry("far", "credential = \"per_user\"\n")
        + &entry("shared", "enabled = false\n[mcp]\nretry_after_ms = 0\n");
    let mut daemon = Daemon::with_vault(&config);
    let rolls = |daemon: &Daemon, user: &str| {
        let client = daemon.client();
        let caller = Caller::default().user(user);
        let response = client.execute("far_roll", &json!({}), &caller);
        response.unwrap().is_success()
    };
    assert!(!rolls(&daemon, "alice"));
    let mut login = auth(&daemon, &["login", "far", "--user", "alice"]);
    let running = Running::spawn(&mut login, &[], Shown::OnStderr);
    open(running.page()).await;
    let output = running.output();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(rolls(&daemon, "alice"));
    assert!(!rolls(&daemon, "bob"));
    assert!(!super::login::rolls(&daemon));
    // The tokens are used also after a restart, and refreshed when they have expired.
    daemon.kill();
    server.revoke();
    let daemon = daemon.again();
    assert!(rolls(&daemon, "alice"));
    let listed = daemon.get("/api/v1/servers/far/credentials").json();
    assert_json!(listed["credentials"][0]["user"], "alice");
    assert_eq!(listed["credentials"][0]["authentication"], "oauth");
    assert_eq!(secrets(&daemon), 2);

    let mut logout = auth(&daemon, &["logout", "far", "--user", "alice"]);
    let output = logout.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!rolls(&daemon, "alice"));
    assert_eq!(secrets(&daemon), 0);
    let mut login = auth(&daemon, &["login", "shared", "--user", "alice"]);
    let output = login.output().unwrap();
    assert_contains!(stderr(&output), "per_user");
}

/// Returns the number of secrets in the vault.
fn secrets(daemon: &Daemon) -> u64 {
    let config = daemon.config_path();
    let rotate = ["vault", "rotate", "--config", config.to_str().unwrap()];
    success(&daemon.command(&rotate).output().unwrap());
    let log = daemon.log();
    let rotated = log
        .lines()
        .rfind(|line| line.contains("Encrypted the stored secrets with a new key"));
    let rotated: Value = serde_json::from_str(rotated.unwrap()).unwrap();
    rotated["secrets"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_tokens_are_removed_with_the_last_server_of_their_url() {
    let server = FakeOAuth::start(OAuthRules::default());
    let daemon = Daemon::with_vault("");
    let send = |method: &str, path: &str, body: &Value| send(&daemon, method, path, body);
    for name in ["far", "twin"] {
        let oauth = json!({"type": "oauth"});
        let body = json!({"name": name, "url": server.url, "authentication": oauth});
        send("POST", "", &body);
    }
    let none = secrets(&daemon);
    let running = Running::spawn(&mut auth(&daemon, &["login", "far"]), &[], Shown::OnStderr);
    open(running.page()).await;
    success(&running.output());
    assert!(rolls(&daemon));
    assert_eq!(secrets(&daemon), none + 1);
    // The removal does not affect another server with the same URL, which has the same
    // authorization.
    send("DELETE", "/twin", &json!({}));
    assert_eq!(secrets(&daemon), none);
    assert!(rolls(&daemon));
    send("DELETE", "/far", &json!({}));
    assert_eq!(secrets(&daemon), 0);
}

fn with_vault() -> Daemon {
    Daemon::with_vault("[mcp]\nretry_after_ms = 0\n")
}

/// Changes the servers; the request has to succeed.
fn send(daemon: &Daemon, method: &str, path: &str, body: &Value) -> Value {
    let path = format!("/api/v1/servers{path}");
    let body = body.to_string();
    let reply = daemon.send(method, &path, "", body.as_bytes());
    assert!(reply.status < 300, "{reply:?}");
    reply.json()
}

async fn log_in(daemon: &Daemon, arguments: &[&str]) {
    let mut login = auth(daemon, &[&["login"], arguments].concat());
    let running = Running::spawn(&mut login, &[], Shown::OnStderr);
    open(running.page()).await;
    success(&running.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_tokens_renewed_during_the_removal_of_their_server_are_not_stored() {
    let server = FakeOAuth::start(OAuthRules::refreshing());
    let daemon = with_vault();
    let oauth = json!({"type": "oauth"});
    let body = json!({"name": "far", "url": server.url, "authentication": oauth});
    send(&daemon, "POST", "", &body);
    log_in(&daemon, &["far"]).await;
    assert!(rolls(&daemon));
    assert_eq!(secrets(&daemon), 2);
    server.revoke();
    server.change(|rules| rules.token_delay = Duration::from_secs(1));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| rolls(&daemon));
        eventually("the token is renewed", || {
            server.token_requests().len() == 2
        });
        send(&daemon, "DELETE", "/far", &json!({}));
        assert!(call.join().unwrap(), "the call finishes");
    });
    assert_eq!(secrets(&daemon), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_tokens_are_valid_only_for_the_client_that_got_them() {
    let server = FakeOAuth::start(OAuthRules::default());
    let daemon = with_vault();
    let client = |id: &str| json!({"authentication": {"type": "oauth", "client_id": id}});
    for (name, credential) in [("far", "shared"), ("own", "per_user")] {
        let mut body = client(&format!("first-of-{name}"));
        body["name"] = name.into();
        body["url"] = server.url.clone().into();
        body["credential"] = credential.into();
        send(&daemon, "POST", "", &body);
    }
    log_in(&daemon, &["far"]).await;
    log_in(&daemon, &["own", "--user", "alice"]).await;
    assert!(rolls(&daemon));
    // Each server has its client configuration and its tokens; alice's user entry counts, too.
    assert_eq!(secrets(&daemon), 5);
    // The change does not affect the authorization.
    send(&daemon, "PATCH", "/far", &json!({"timeout": 20_000}));
    assert!(rolls(&daemon));
    send(&daemon, "PATCH", "/far", &client("second"));
    assert_eq!(secrets(&daemon), 4);
    assert!(!rolls(&daemon));
    send(&daemon, "PATCH", "/own", &client("second"));
    assert_eq!(secrets(&daemon), 2);
    let listed = daemon.get("/api/v1/servers/own/credentials").json();
    assert_eq!(listed["credentials"], json!([]));
    for name in ["far", "own"] {
        let path = format!("/{name}");
        send(
            &daemon,
            "PATCH",
            &path,
            &client(&format!("first-of-{name}")),
        );
    }
    assert!(!rolls(&daemon));
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_a_changed_client_in_the_configuration_removes_its_tokens() {
    let server = FakeOAuth::start(OAuthRules::default());
    let directory = tempfile::tempdir().unwrap();
    let sections = vault(directory.path()) + "[mcp]\nretry_after_ms = 0\n";
    let config = |client: &str| {
        let oauth = format!("authentication = {{ type = \"oauth\", client_id = \"{client}\" }}");
        sections.clone() + &detected_entry("far", &server.url, &oauth)
    };
    let daemon = Daemon::with_config(&config("first"));
    log_in(&daemon, &["far"]).await;
    assert!(rolls(&daemon));
    assert_eq!(secrets(&daemon), 1);
    for client in ["second", "first"] {
        reload(&daemon, &config(client));
        assert!(!rolls(&daemon));
    }
    assert_eq!(secrets(&daemon), 0);
}

fn rolls(daemon: &Daemon) -> bool {
    let client = daemon.client();
    let response = client.execute("far_roll", &json!({}), &Caller::default());
    response.unwrap().is_success()
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_a_sidecar_uses_an_authorization_given_on_the_command_line() {
    let server = FakeOAuth::start(OAuthRules::refreshing());
    let config = detected_entry("far", &server.url, "authentication = { type = \"oauth\" }")
        + &detected_entry("open", "http://127.0.0.1:9/", "enabled = false")
        + "[log]\nfilter = \"trace\"\n";
    let mut daemon = Daemon::with_vault(&config);
    assert!(!rolls(&daemon), "no authorization was started");
    let running = Running::spawn(&mut auth(&daemon, &["login", "far"]), &[], Shown::OnStderr);
    open(running.page()).await;
    let text = "far: authorized; the sidecar has the tokens\n";
    assert_eq!(success(&running.output()), text);
    assert!(rolls(&daemon));
    // The tokens are used also after a restart, and refreshed when they have expired.
    daemon.kill();
    server.revoke();
    let daemon = daemon.again();
    assert!(rolls(&daemon));
    let renewal = server.token_requests().last().cloned().unwrap();
    assert_eq!(renewal["grant_type"], "refresh_token");
    let store = std::fs::read(daemon.store_path());
    assert!(!String::from_utf8_lossy(&store.unwrap()).contains(SECRET));
    assert!(!daemon.log().contains(SECRET));

    let output = auth(&daemon, &["logout", "far"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!rolls(&daemon));
    for (name, expected) in [
        (
            "open",
            "server 'open' does not use OAuth with a user's consent",
        ),
        ("missing", "Server not found: 'missing'"),
    ] {
        let output = auth(&daemon, &["login", name]).output().unwrap();
        assert_contains!(stderr(&output), expected);
    }
}
