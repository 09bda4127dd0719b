//! `pillion servers` and `pillion vault` (F1 to F3, L1).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use pillion_wire::route;

use crate::mcp_server::McpServer;
use crate::processes::descendants;
use crate::program::{Daemon, eventually, pillion, stderr, stdout};
use pillion_testkit::root_or_skip;

fn config(daemon: &Daemon) -> PathBuf {
    let directory = daemon.socket.parent().unwrap();
    directory.with_file_name("pillion.toml")
}

/// Runs the command with the daemon's configuration and store.
fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    pillion(arguments)
        .env("PILLION_SOCKET", &daemon.socket)
        .env("PILLION_CONFIG", config(daemon))
        .env(
            "PILLION__STORE__LOCATION",
            config(daemon).with_file_name("pillion.db"),
        )
        .env("FAR_TOKEN", "hunter2-hunter2")
        .output()
        .unwrap()
}

fn well(daemon: &Daemon, arguments: &[&str]) -> String {
    let output = run(daemon, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

fn badly(daemon: &Daemon, arguments: &[&str], code: i32) -> String {
    let output = run(daemon, arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {}",
        stdout(&output)
    );
    stderr(&output)
}

fn echo() -> McpServer {
    McpServer::start(
        json!([{"name": "echo", "description": "Says it", "inputSchema": {"type": "object"}}]),
    )
}

fn with_key() -> (tempfile::TempDir, Daemon) {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("vault.key");
    std::fs::write(&key, [5; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = Daemon::with_config(&format!("[vault]\nkey_file = \"{}\"\n", key.display()), &[]);
    (directory, daemon)
}

#[test]
fn c7_the_limit_of_a_server_is_set_shown_and_removed() {
    let far = echo();
    let daemon = Daemon::start();
    let add = ["servers", "add", "far", "--url", &far.url];
    let limit = ["--rate-limit", "per_minute=2,per_hour=5"];
    well(&daemon, &[&add[..], &limit].concat());
    let shown = || {
        let shown = well(&daemon, &["servers", "show", "far"]);
        let line = shown.lines().find(|line| line.starts_with("rate limit"));
        line.unwrap()["rate limit".len()..].trim().to_owned()
    };
    assert_eq!(shown(), "2 per minute, 5 per hour");
    let update = |limit: &'static str| ["servers", "update", "far", "--rate-limit", limit];
    well(&daemon, &update("per_day=7"));
    assert_eq!(shown(), "7 per day");
    well(&daemon, &update("none"));
    assert_eq!(shown(), "-");
    for wrong in ["", "7", "per_day=0", "per_week=1", "per_day=1, per_hour=1"] {
        let said = badly(&daemon, &update(wrong), 2);
        assert!(
            said.contains("expected one or more of per_minute=N"),
            "{said}"
        );
    }
}

#[test]
fn f2_servers_are_added_shown_changed_tested_and_removed() {
    let far = echo();
    let daemon = Daemon::start();
    let tried = well(&daemon, &["servers", "test", "--url", &far.url]);
    assert!(
        tried.contains("fake 1 listed 1 tools") && tried.contains("\n  echo"),
        "{tried}"
    );
    let added = well(
        &daemon,
        &[
            "servers",
            "add",
            "far",
            "--url",
            &far.url,
            "--description",
            "d",
        ],
    );
    assert!(
        added.starts_with(&format!("far: enabled, {}, id ", far.url)),
        "{added}"
    );
    let tools = well(&daemon, &["servers", "tools", "far"]);
    assert!(tools.contains("far_echo  echo         Says it"), "{tools}");
    let listed = well(&daemon, &["servers", "list"]);
    assert!(
        listed
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("far   connected  1"),
        "{listed}"
    );
    let shown = well(&daemon, &["servers", "show", "far"]);
    assert!(shown.contains("timeout         30000 ms"), "{shown}");
    well(
        &daemon,
        &[
            "servers",
            "update",
            "far",
            "--timeout-ms",
            "5000",
            "--name",
            "afar",
        ],
    );
    let shown: Value =
        serde_json::from_str(&well(&daemon, &["servers", "show", "afar", "--json"])).unwrap();
    assert_eq!(
        (&shown["timeout"], &shown["description"]),
        (&json!(5_000), &json!("d"))
    );
    assert!(well(&daemon, &["servers", "disable", "afar"]).contains("afar: disabled"));
    assert!(well(&daemon, &["servers", "enable", "afar"]).contains("afar: enabled"));
    well(&daemon, &["servers", "test", "afar"]);
    assert!(well(&daemon, &["servers", "remove", "afar"]).contains("afar: removed"));
    let error = badly(&daemon, &["servers", "show", "afar"], 1);
    assert_eq!(
        error,
        "pillion: Server not found: 'afar'; `pillion servers list` shows all servers\n"
    );
}

#[test]
fn a_server_is_disconnected_and_connected_again() {
    let far = echo();
    let daemon = Daemon::start();
    well(&daemon, &["servers", "add", "far", "--url", &far.url]);
    let connect = ["servers", "connect", "far"];
    assert_eq!(well(&daemon, &connect).trim(), "far: connected");
    let ended = well(&daemon, &["servers", "disconnect", "far"]);
    assert_eq!(ended.trim(), "far: disconnected");
    let refused = badly(&daemon, &["tools", "call", "far_echo"], 1);
    assert!(refused.contains("Not connected"), "{refused}");
    let again = well(&daemon, &["servers", "reconnect", "far", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["server"]["name"], "far");
    well(&daemon, &["tools", "call", "far_echo"]);

    let away = "http://127.0.0.1:9/mcp";
    well(&daemon, &["servers", "add", "away", "--url", away]);
    let failed = badly(&daemon, &["servers", "connect", "away"], 1);
    assert!(failed.contains("refused"), "{failed}");
}

#[test]
fn f1_invalid_settings_are_rejected_in_one_line() {
    let daemon = Daemon::start();
    let url = "http://127.0.0.1:9/mcp";
    for (arguments, code, expected) in [
        (
            &["servers", "add", "far", "--url", url, "--timeout-ms", "999"][..],
            1,
            "timeout: must be between",
        ),
        (
            &["servers", "add", "far", "--url", "not-a-url"],
            1,
            "Invalid server URL",
        ),
        (
            &["servers", "add", "far"],
            1,
            "either a 'url' or a 'command'",
        ),
        (
            &[
                "servers",
                "add",
                "far",
                "--url",
                url,
                "--bearer-env",
                "FAR_TOKEN",
            ],
            1,
            "vault.key_file",
        ),
        (
            &[
                "servers",
                "add",
                "far",
                "--url",
                url,
                "--bearer-env",
                "NO_SUCH",
            ],
            2,
            "NO_SUCH",
        ),
        (&["servers", "update", "far"], 2, "no change is given"),
        (&["servers", "test"], 2, "no server is given"),
        (
            &["servers", "test", "--url", "http://127.0.0.1:9/mcp"],
            1,
            "Connection refused",
        ),
        (&["vault", "rotate"], 1, "vault.key_file is not set"),
    ] {
        let error = badly(&daemon, arguments, code);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_program_is_added_with_access_to_the_store_and_takes_effect_at_once() {
    let (program, arguments) = pillion_testkit::fake_stdio(&[]);
    let (_directory, mut daemon) = with_key();
    let mut line = vec![
        "servers",
        "add",
        "near",
        "--command",
        program,
        "--env-from",
        "FAR_TOKEN",
        "--",
    ];
    line.extend(arguments.iter().map(String::as_str));
    let added = well(&daemon, &line);
    assert!(added.contains("near: enabled, program "), "{added}");
    assert!(well(&daemon, &["servers", "tools", "near"]).contains("near_roll"));
    well(&daemon, &["servers", "test", "near"]);
    well(
        &daemon,
        &["servers", "update", "near", "--description", "Rolls"],
    );
    well(&daemon, &["servers", "disable", "near"]);
    // The REST API cannot start the program again; the operator of the store can.
    let refused = crate::http::send(
        &daemon.socket,
        "POST",
        "/api/v1/servers/near/enable",
        "",
        b"",
    );
    assert_eq!(refused.status, 403);
    let error = badly(&daemon, &["servers", "test", "near"], 1);
    assert!(error.contains("operator"), "{error}");
    well(&daemon, &["servers", "enable", "near"]);
    let called = well(&daemon, &["tools", "call", "near_roll"]);
    assert!(called.contains("15"), "{called}");
    let store = std::fs::read(config(&daemon).with_file_name("pillion.db")).unwrap();
    assert!(!String::from_utf8_lossy(&store).contains("hunter2"));
    // The session ends with the program's entry, and so does the program.
    let id = pillion_client::Client::new(&daemon.socket)
        .fetch(route::STATUS)
        .unwrap()
        .pid;
    assert!(!descendants(id).is_empty());
    well(&daemon, &["servers", "disable", "near"]);
    eventually("the program has ended", || descendants(id).is_empty());
    well(&daemon, &["servers", "enable", "near"]);
    // Also without a running sidecar.
    daemon.kill();
    let output = run(&daemon, &["servers", "disable", "near"]);
    assert!(
        stderr(&output).contains("the sidecar is not running"),
        "{}",
        stderr(&output)
    );
    assert!(output.status.success());
    let daemon = daemon.again();
    assert!(well(&daemon, &["servers", "list"]).contains("near  disabled"));
    well(&daemon, &["servers", "remove", "near"]);
}

#[test]
fn the_store_of_another_user_or_in_memory_is_not_changed() {
    let daemon = Daemon::start();
    let add = ["servers", "add", "near", "--command", "/bin/cat"];
    let output = pillion(&add)
        .env("PILLION__STORE__LOCATION", "memory")
        .env("PILLION_SOCKET", &daemon.socket)
        .output()
        .unwrap();
    assert!(
        stderr(&output).contains("in the sidecar's memory"),
        "{}",
        stderr(&output)
    );
    if root_or_skip() {
        let store = config(&daemon).with_file_name("pillion.db");
        std::os::unix::fs::chown(&store, Some(12_345), None).unwrap();
        let error = badly(&daemon, &add, 1);
        assert!(
            error.contains("belongs to another user") && error.contains("12345"),
            "{error}"
        );
    }
}

#[test]
fn l1_credentials_of_users_are_not_passed_as_arguments() {
    let far = McpServer::guarded(
        json!([{"name": "echo", "inputSchema": {"type": "object"}}]),
        &[("alice-alice-alice", "alice"), ("bob-bob-bob", "bob")],
    );
    let (directory, daemon) = with_key();
    let add = [
        "servers",
        "add",
        "far",
        "--url",
        &far.url,
        "--credential",
        "per_user",
    ];
    well(&daemon, &add);
    assert!(well(&daemon, &["servers", "show", "far"]).contains("credential      per_user"));
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "alice-alice-alice\n").unwrap();
    let set = ["servers", "credentials", "set", "far", "--user"];
    let file = ["alice", "--file", secret.to_str().unwrap()];
    let said = well(&daemon, &[&set[..], &file].concat());
    assert_eq!(said, "far: the credential of alice is set\n");
    let mut piped = pillion(&[&set[..], &["bob b/c"]].concat())
        .env("PILLION_SOCKET", &daemon.socket)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = piped.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"bob-bob-bob").unwrap();
    drop(input);
    assert!(piped.wait().unwrap().success());
    for (user, account) in [("alice", "alice"), ("bob b/c", "bob")] {
        let said = well(
            &daemon,
            &["tools", "call", "far_echo", "--user", user, "--json"],
        );
        assert!(
            said.contains(&format!("\"account\":\"{account}\"")),
            "{said}"
        );
    }
    let tools = well(&daemon, &["servers", "tools", "far", "--user", "alice"]);
    assert!(
        tools.contains("far_files_of_alice") && !tools.contains("of_bob"),
        "{tools}"
    );
    let list = ["servers", "credentials", "list", "far"];
    let listed = well(&daemon, &list);
    assert!(listed.contains("alice") && listed.contains("bob b/c") && listed.contains("bearer"));
    assert!(
        !listed.contains("alice-alice") && !listed.contains("bob-bob"),
        "{listed}"
    );
    well(
        &daemon,
        &[
            "servers",
            "credentials",
            "remove",
            "far",
            "--user",
            "bob b/c",
        ],
    );
    assert!(!well(&daemon, &list).contains("bob"));
    let refused = badly(
        &daemon,
        &["tools", "call", "far_echo", "--user", "bob b/c"],
        1,
    );
    assert!(refused.contains("(denied)"), "{refused}");
    let gone = [
        "servers",
        "credentials",
        "remove",
        "far",
        "--user",
        "bob b/c",
    ];
    assert!(badly(&daemon, &gone, 1).contains("no credential"));
    // A password needs a user name, and an empty value is not a secret.
    let basic = [
        &set[..],
        &["carol", "--type", "basic", "--file", "/dev/null"],
    ]
    .concat();
    assert!(badly(&daemon, &basic, 2).contains("--username"));
    let nothing = [&set[..], &["carol", "--file", "/dev/null"]].concat();
    badly(&daemon, &nothing, 2);
}

fn rotate_and_call(daemon: &Daemon, key: &Path) {
    let before = std::fs::read(key).unwrap();
    let said = well(daemon, &["vault", "rotate"]);
    assert!(said.contains("has the new key"), "{said}");
    assert_ne!(std::fs::read(key).unwrap(), before);
    // An older key does not replace it.
    let kept = said.trim().rsplit(' ').next().unwrap();
    assert!(kept.contains("vault.key.old"), "{said}");
    assert_eq!(std::fs::read(kept).unwrap(), before);
    assert!(!key.with_extension("key.new").exists());
    assert_eq!(
        std::fs::metadata(key).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn l1_the_vaults_key_is_changed_by_one_command_with_and_without_a_sidecar() {
    let far = echo();
    let (directory, mut daemon) = with_key();
    let key = directory.path().join("vault.key");
    well(
        &daemon,
        &[
            "servers",
            "add",
            "far",
            "--url",
            &far.url,
            "--bearer-env",
            "FAR_TOKEN",
        ],
    );
    rotate_and_call(&daemon, &key);
    well(&daemon, &["tools", "call", "far_echo"]);
    // Later secrets are encrypted with the new key.
    well(
        &daemon,
        &[
            "servers",
            "add",
            "two",
            "--url",
            &far.url,
            "--bearer-env",
            "FAR_TOKEN",
        ],
    );
    daemon.kill();
    let first = std::fs::read(key.with_extension("key.old")).unwrap();
    rotate_and_call(&daemon, &key);
    assert_eq!(std::fs::read(key.with_extension("key.old")).unwrap(), first);
    // A rotation that was interrupted before the new key file was in place is completed.
    let old = std::fs::read(key.with_extension("key.old-2")).unwrap();
    std::fs::rename(&key, key.with_extension("key.new")).unwrap();
    std::fs::write(&key, &old).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    rotate_and_call(&daemon, &key);
    let daemon = daemon.again();
    for tool in ["far_echo", "two_echo"] {
        well(&daemon, &["tools", "call", tool]);
    }
    let sent = far.credentials();
    assert!(
        sent.iter().all(|it| it == "Bearer hunter2-hunter2"),
        "{sent:?}"
    );
}

#[test]
fn f2_a_program_is_only_added_to_the_store_of_the_running_sidecar() {
    let daemon = Daemon::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join("other.db");
    let output = pillion(&["servers", "add", "notes", "--command", "cat"])
        .env("PILLION_SOCKET", &daemon.socket)
        .env("PILLION__STORE__LOCATION", &other)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("uses another store"), "{said}");
    assert!(!other.exists());
}
