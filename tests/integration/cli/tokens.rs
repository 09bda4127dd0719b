//! `pillion tokens`, and the access that tokens grant (L3).

use std::net::{SocketAddr, TcpStream};

use crate::http::{free_address, send_with_token};
use crate::prelude::*;
use crate::reload::rewrite;

/// Runs the command, which does not know the daemon's socket.
pub fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    let mut command = daemon.command(&[&["tokens"], arguments].concat());
    command.env_remove("PILLION_SOCKET").output().unwrap()
}

fn well(daemon: &Daemon, arguments: &[&str]) -> String {
    success(&run(daemon, arguments))
}

/// Returns the status of a request with that token.
fn status(address: SocketAddr, token: &str, request: &str) -> u16 {
    send_with_token(address, token, request, "", "").status
}

fn daemon() -> (Daemon, SocketAddr) {
    let address = free_address();
    let toml =
        format!("[tcp]\nlisten = \"{address}\"\ntokens_store = true\n[log]\nfilter = \"trace\"\n");
    (Daemon::with_config(&toml), address)
}

const LIST: &str = "GET /api/v1/tools/";
const RUN: &str = "POST /api/v1/tools/execute/get_time";
const ADD: &str = "POST /api/v1/servers/refresh";

#[test]
fn l3_a_token_grants_its_scope_until_it_is_revoked() {
    let (mut daemon, address) = daemon();
    assert_eq!(status(address, "pln_nothing-nothing-nothing", LIST), 401);
    let token = |name: &str, scope: &str| {
        let token = well(&daemon, &["create", name, "--scope", scope]);
        token.trim().to_owned()
    };
    let (reader, runner, admin) = (
        token("watch", "read"),
        token("ci", "execute"),
        token("ops", "admin"),
    );
    let all = |token: &str| [LIST, RUN, ADD].map(|request| status(address, token, request));
    assert_eq!(all(&reader), [200, 403, 403]);
    assert_eq!(all(&runner), [200, 200, 403]);
    assert_eq!(all(&admin), [200, 200, 200]);
    assert_eq!(status(address, &reader[..reader.len() - 1], LIST), 401);

    let listed: Value = serde_json::from_str(&well(&daemon, &["list", "--json"])).unwrap();
    assert_eq!(listed["tokens"][0]["name"], "ci");
    assert_eq!(listed["tokens"][0]["scopes"], json!(["execute"]));
    assert!(listed["tokens"][0]["lastUsedAt"].is_string(), "{listed}");
    assert_contains!(well(&daemon, &["revoke", "ci"]), "ci: revoked");
    assert_eq!(status(address, &runner, LIST), 401);
    assert_contains!(well(&daemon, &["list"]), "revoked");
    let revoked = well(&daemon, &["revoke", "watch", "--json"]);
    let revoked: Value = serde_json::from_str(&revoked).unwrap();
    assert_eq!(revoked, json!({"name": "watch", "status": "revoked"}));
    // Neither the log nor the store contains a token.
    let stored = std::fs::read(daemon.store_path()).unwrap();
    for token in [&reader, &runner, &admin] {
        assert!(token.starts_with("pln_") && token.len() > 40, "{token}");
        assert!(!daemon.log().contains(token.as_str()));
        assert!(!String::from_utf8_lossy(&stored).contains(token.as_str()));
    }
    let daemon = daemon.restart();
    eventually("the address is served", || {
        TcpStream::connect(address).is_ok()
    });
    assert_eq!(all(&admin), [200, 200, 200]);
    assert_eq!(status(address, &runner, LIST), 401);
    // A changed configuration does not affect stored tokens unless it disables them.
    let text = std::fs::read_to_string(daemon.config_path()).unwrap();
    rewrite(&daemon, &format!("{text}[executor]\nmax_concurrent = 2\n"));
    assert_eq!(all(&admin), [200, 200, 200]);
}

#[test]
fn l3_a_token_may_have_a_list_of_tools() {
    let (daemon, address) = daemon();
    let create = |name: &str, more: &[&str]| {
        let arguments = [&["create", name, "--scope", "execute"], more].concat();
        well(&daemon, &arguments).trim().to_owned()
    };
    let all = create("all", &[]);
    let few = create("few", &["--tools", "get_time,calc*", "--user", "alice"]);
    let listed: Value = serde_json::from_str(&well(&daemon, &["list", "--json"])).unwrap();
    let words = |index: usize| listed["tokens"][index]["scopes"].clone();
    assert_eq!(words(0), json!(["execute"]));
    let of_few = ["execute", "user=alice", "tools=get_time,calc*"];
    assert_eq!(words(1), json!(of_few));
    assert!(well(&daemon, &["list"]).contains(&of_few.join(" ")));
    let sees = |token: &str| {
        let list = send_with_token(address, token, LIST, "", "").text();
        ["calculator", "get_time", "roll_dice"].map(|name| list.contains(&format!("{name:?}")))
    };
    assert_eq!(sees(&all), [true; 3]);
    assert_eq!(sees(&few), [true, true, false]);
    let ran = |token: &str, name: &str| {
        let request = format!("POST /api/v1/tools/execute/{name}");
        let response = send_with_token(address, token, &request, "", "").text();
        !response.contains(&format!("Tool '{name}' not found"))
    };
    assert_eq!([ran(&all, "roll_dice"), ran(&few, "get_time")], [true; 2]);
    assert!(!ran(&few, "roll_dice"));
    for bad in ["", "get_time, calculator", "*_time", "a/b"] {
        assert_contains!(
            failure(
                &run(
                    &daemon,
                    &["create", "bad", "--scope", "execute", "--tools", bad],
                ),
                2
            ),
            "separated by commas without spaces"
        );
    }
}

#[test]
fn l3_a_token_of_the_configuration_and_one_of_the_store_are_two_principals() {
    let listed = "listed-listed-listed-listed";
    let more = "tokens_store = true\n[approvals]\npolicy = \"always-ask\"\n";
    let (daemon, address) = Daemon::with_tokens(&format!("ci approve {listed}"), more);
    // The command does not see the sidecar's variable, so it cannot know that the name is taken.
    let stored = well(&daemon, &["create", "ci", "--scope", "approve"]);
    let decided_by = |token: &str, expression: &str| {
        let result = crate::approvals::calculate(&daemon.socket, "alice", expression, "");
        let id = crate::approvals::approval_id(&result);
        let request = format!("POST /api/v1/approvals/{id}/approve");
        assert_eq!(status(address, token, &request), 200);
        let shown = daemon.get(&format!("/api/v1/approvals/{id}")).json();
        shown["approval"]["decided_by"].text().to_owned()
    };
    assert_eq!(decided_by(listed, "1"), "token:ci");
    assert_eq!(decided_by(stored.trim(), "2"), "stored-token:ci");
}

#[test]
fn l3_a_stored_token_cannot_have_the_name_of_a_configured_token() {
    let daemon = Daemon::start();
    let file = daemon.directory().join("tokens");
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    std::fs::write(&file, format!("ci read sha256:{hash}\n")).unwrap();
    let config = daemon.config_path();
    let toml = format!("[tcp]\ntokens_file = \"{}\"\n", file.display());
    std::fs::write(&config, toml).unwrap();
    assert_contains!(
        failure(&run(&daemon, &["create", "ci", "--scope", "read"]), 2),
        "the configuration already has a token named 'ci'"
    );
}

#[test]
fn l3_names_are_unique_and_stored_tokens_need_a_setting() {
    let daemon = Daemon::start();
    let output = run(&daemon, &["create", "ci", "--scope", "read"]);
    assert!(output.status.success());
    assert_contains!(stderr(&output), "tcp.tokens_store");
    for (arguments, code, expected) in [
        (
            &["create", "ci", "--scope", "read"][..],
            2,
            "a token named 'ci' already",
        ),
        (
            &["create", "two words", "--scope", "read"],
            2,
            "without white space",
        ),
        (&["create", "x", "--scope", "all"], 2, "admin"),
        (
            &["revoke", "missing"],
            1,
            "Access token not found: 'missing'",
        ),
    ] {
        let output = run(&daemon, arguments);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_contains!(stderr(&output), expected);
    }
}

#[test]
fn l3_a_store_other_than_the_running_sidecars_is_not_written() {
    let daemon = Daemon::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let create = |store: &std::path::Path| {
        pillion(&["tokens", "create", "bot", "--scope", "execute"])
            .env("PILLION_SOCKET", &daemon.socket)
            .env("PILLION__STORE__LOCATION", store)
            .output()
            .unwrap()
    };
    let other = elsewhere.path().join("other.db");
    // The command rejects a store that is not the sidecar's, whether the store is new or exists.
    for _ in 0..2 {
        let output = create(&other);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
        assert_contains!(stderr(&output), "uses another store");
        if !other.exists() {
            success(
                &pillion(&["store", "migrate"])
                    .env("PILLION__STORE__LOCATION", &other)
                    .output()
                    .unwrap(),
            );
        }
    }
    success(&create(&daemon.store_path()));
}
