//! `pillion auth`: an authorization for a sidecar, which has nobody to ask.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pillion_client::{Caller, Client};
use pillion_testkit::{FakeOAuth, OAuthRules};
use serde_json::json;

use super::{Running, SECRET, Shown, open};
use crate::program::{Daemon, pillion, stderr, stdout};

fn auth(daemon: &Daemon, arguments: &[&str]) -> Command {
    let config = daemon
        .socket
        .parent()
        .unwrap()
        .with_file_name("pillion.toml");
    let mut command = pillion(&["auth"]);
    command
        .args(arguments)
        .env("PILLION_SOCKET", &daemon.socket)
        .env(
            "PILLION__STORE__LOCATION",
            config.with_file_name("pillion.db"),
        )
        .env("PILLION_CONFIG", config);
    command
}

fn rolls(daemon: &Daemon) -> bool {
    let client = Client::new(&daemon.socket);
    let answer = client.execute("far_roll", &json!({}), &Caller::default());
    answer.unwrap().is_success()
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_a_sidecar_has_the_authorization_that_somebody_gave_for_it() {
    let server = FakeOAuth::start(OAuthRules {
        refresh: true,
        ..OAuthRules::default()
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("vault.key");
    std::fs::write(&key, [3; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "[vault]\nkey_file = \"{}\"\n[log]\nfilter = \"trace\"\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\nauthentication = {{ type = \"oauth\" }}\n\
         [[mcp_servers]]\nlabel = \"open\"\nurl = \"http://127.0.0.1:9/\"\nenabled = false\n",
        key.display(),
        server.url
    );
    let mut daemon = Daemon::with_config(&config, &[]);
    assert!(!rolls(&daemon), "nobody was asked");
    let running = Running::of(&mut auth(&daemon, &["login", "far"]), &[], Shown::OnStderr);
    open(running.page()).await;
    let output = running.output();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "far: authorized; the sidecar has it\n");
    assert!(rolls(&daemon));
    // Also after a restart, and renewed when it is used up.
    daemon.kill();
    server.revoke();
    let daemon = daemon.again();
    assert!(rolls(&daemon));
    let renewal = server.token_requests().last().cloned().unwrap();
    assert_eq!(renewal["grant_type"], "refresh_token");
    let store = std::fs::read(daemon.socket.parent().unwrap().with_file_name("pillion.db"));
    assert!(!String::from_utf8_lossy(&store.unwrap()).contains(SECRET));
    assert!(!daemon.log().contains(SECRET));

    let output = auth(&daemon, &["logout", "far"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!rolls(&daemon));
    for (name, expected) in [
        ("open", "nobody is asked for an authorization"),
        ("nobody", "Server not found"),
    ] {
        let output = auth(&daemon, &["login", name]).output().unwrap();
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
