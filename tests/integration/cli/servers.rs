//! `pillion servers` and `pillion vault` (F1 to F3, L1).

use std::os::unix::fs::PermissionsExt;

use pillion_testkit::root_or_skip;

use crate::prelude::*;
use crate::processes::descendants;

/// Runs the command with the daemon's configuration and store.
fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    let mut command = daemon.command(arguments);
    command.env("FAR_TOKEN", "hunter2-hunter2");
    command.output().unwrap()
}

fn well_with(daemon: &Daemon, arguments: &[&str]) -> String {
    success(&run(daemon, arguments))
}

/// Runs the command line, whose words have no spaces.
fn well(daemon: &Daemon, line: &str) -> String {
    well_with(daemon, &line.split(' ').collect::<Vec<_>>())
}

fn badly(daemon: &Daemon, line: &str, code: i32) -> String {
    badly_with(daemon, &line.split(' ').collect::<Vec<_>>(), code)
}

fn badly_with(daemon: &Daemon, arguments: &[&str], code: i32) -> String {
    failure(&run(daemon, arguments), code)
}

fn echo() -> McpServer {
    let tool = json!({"name": "echo", "description": "Says it", "inputSchema": {"type": "object"}});
    McpServer::start(json!([tool]))
}

#[test]
fn c7_the_limit_of_a_server_is_set_shown_and_removed() {
    let far = echo();
    let daemon = Daemon::start();
    let add = ["servers", "add", "far", "--url", &far.url];
    let limit = ["--rate-limit", "per_minute=2,per_hour=5"];
    well_with(&daemon, &[&add[..], &limit].concat());
    let shown = || {
        let shown = well(&daemon, "servers show far");
        let line = shown.lines().find(|line| line.starts_with("rate limit"));
        line.unwrap()["rate limit".len()..].trim().to_owned()
    };
    assert_eq!(shown(), "2 per minute, 5 per hour");
    let update = |limit: &'static str| ["servers", "update", "far", "--rate-limit", limit];
    well_with(&daemon, &update("per_day=7"));
    assert_eq!(shown(), "7 per day");
    well_with(&daemon, &update("none"));
    assert_eq!(shown(), "-");
    for wrong in ["", "7", "per_day=0", "per_week=1", "per_day=1, per_hour=1"] {
        let text = "expected one or more of per_minute=N";
        assert_contains!(badly_with(&daemon, &update(wrong), 2), text);
    }
}

#[test]
fn f2_servers_are_added_shown_changed_tested_and_removed() {
    let far = echo();
    let daemon = Daemon::start();
    let tried = well_with(&daemon, &["servers", "test", "--url", &far.url]);
    assert_contains!(tried, "fake 1 listed 1 tools", "\n  echo");
    let add = format!("servers add far --url {} --description d", far.url);
    let added = well(&daemon, &add);
    assert_starts_with!(added, &format!("far: enabled, {}, id ", far.url));
    let expected = "far_echo  echo         Says it";
    assert_contains!(well(&daemon, "servers tools far"), expected);
    let listed = well(&daemon, "servers list");
    assert_starts_with!(listed.lines().nth(1).unwrap(), "far   connected  1");
    let text = "timeout         30000 ms";
    assert_contains!(well(&daemon, "servers show far"), text);
    well(&daemon, "servers update far --timeout-ms 5000 --name afar");
    let shown: Value = serde_json::from_str(&well(&daemon, "servers show afar --json")).unwrap();
    assert_json!(shown["timeout"], 5_000);
    assert_json!(shown["description"], "d");
    assert_contains!(well(&daemon, "servers disable afar"), "afar: disabled");
    assert_contains!(well(&daemon, "servers enable afar"), "afar: enabled");
    well(&daemon, "servers test afar");
    assert_contains!(well(&daemon, "servers remove afar"), "afar: removed");
    let error = badly(&daemon, "servers show afar", 1);
    assert_eq!(
        error,
        "pillion: Server not found: 'afar'; `pillion servers list` shows all servers\n"
    );
}

#[test]
fn a_server_is_disconnected_and_connected_again() {
    let far = echo();
    let daemon = Daemon::start();
    well_with(&daemon, &["servers", "add", "far", "--url", &far.url]);
    let connect = ["servers", "connect", "far"];
    assert_eq!(well_with(&daemon, &connect).trim(), "far: connected");
    let ended = well(&daemon, "servers disconnect far");
    assert_eq!(ended.trim(), "far: disconnected");
    assert_contains!(badly(&daemon, "tools call far_echo", 1), "Not connected");
    let again = well(&daemon, "servers reconnect far --json");
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["server"]["name"], "far");
    well(&daemon, "tools call far_echo");

    let away = "http://127.0.0.1:9/mcp";
    well_with(&daemon, &["servers", "add", "away", "--url", away]);
    assert_contains!(badly(&daemon, "servers connect away", 1), "refused");
}

#[test]
fn f1_invalid_settings_are_rejected_in_one_line() {
    let daemon = Daemon::start();
    let url = "http://127.0.0.1:9/mcp";
    for (line, code, expected) in [
        (
            "servers add far --url URL --timeout-ms 999",
            1,
            "timeout: must be between",
        ),
        ("servers add far --url not-a-url", 1, "Invalid server URL"),
        ("servers add far", 1, "exactly one of 'url' and 'command'"),
        (
            "servers add far --url URL --bearer-env FAR_TOKEN",
            1,
            "vault.key_file",
        ),
        (
            "servers add far --url URL --bearer-env NO_SUCH",
            2,
            "NO_SUCH",
        ),
        ("servers update far", 2, "no change is given"),
        ("servers test", 2, "no server is given"),
        ("servers test --url URL", 1, "Connection refused"),
        ("vault rotate", 1, "vault.key_file is not set"),
    ] {
        let error = badly(&daemon, &line.replace("URL", url), code);
        assert!(error.contains(expected), "{line}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_lacks!(error, "hunter2");
    }
}

#[test]
fn a_program_is_added_with_access_to_the_store_and_takes_effect_at_once() {
    let (program, arguments) = pillion_testkit::fake_stdio(&[]);
    let mut daemon = Daemon::with_vault("");
    let add = ["servers", "add", "near", "--command", program];
    let mut line = [&add[..], &["--env-from", "FAR_TOKEN", "--"]].concat();
    line.extend(arguments.iter().map(String::as_str));
    assert_contains!(well_with(&daemon, &line), "near: enabled, program ");
    assert_contains!(well(&daemon, "servers tools near"), "near_roll");
    well(&daemon, "servers test near");
    well(&daemon, "servers update near --description Rolls");
    well(&daemon, "servers disable near");
    // The REST API cannot start the program again; the operator of the store can.
    let rejected = daemon.post("/api/v1/servers/near/enable", b"");
    assert_eq!(rejected.status, 403);
    assert_contains!(badly(&daemon, "servers test near", 1), "operator");
    well(&daemon, "servers enable near");
    assert_contains!(well(&daemon, "tools call near_roll"), "15");
    let store = std::fs::read(daemon.store_path()).unwrap();
    assert_lacks!(String::from_utf8_lossy(&store), "hunter2");
    // The session ends with the program's entry, and so does the program.
    let id = daemon.client().fetch(route::STATUS).unwrap().pid;
    assert!(!descendants(id).is_empty());
    well(&daemon, "servers disable near");
    eventually("the program has ended", || descendants(id).is_empty());
    well(&daemon, "servers enable near");
    // The command also works without a running sidecar.
    daemon.kill();
    let output = run(&daemon, &["servers", "disable", "near"]);
    assert_contains!(stderr(&output), "the sidecar is not running");
    assert!(output.status.success());
    let daemon = daemon.again();
    assert_contains!(well(&daemon, "servers list"), "near  disabled");
    well(&daemon, "servers remove near");
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
    assert_contains!(stderr(&output), "in the sidecar's memory");
    if root_or_skip() {
        let store = daemon.store_path();
        std::os::unix::fs::chown(&store, Some(12_345), None).unwrap();
        let error = badly_with(&daemon, &add, 1);
        assert_contains!(error, "belongs to another user", "12345");
    }
}

#[test]
fn l1_credentials_of_users_are_not_passed_as_arguments() {
    let far = McpServer::guarded(
        json!([{"name": "echo", "inputSchema": {"type": "object"}}]),
        &[("alice-alice-alice", "alice"), ("bob-bob-bob", "bob")],
    );
    let daemon = Daemon::with_vault("");
    let add = format!("servers add far --url {} --credential per_user", far.url);
    well(&daemon, &add);
    let expected = "credential      per_user";
    assert_contains!(well(&daemon, "servers show far"), expected);
    let secret = daemon.directory().join("secret");
    std::fs::write(&secret, "alice-alice-alice\n").unwrap();
    let set = ["servers", "credentials", "set", "far", "--user"];
    let file = ["alice", "--file", secret.to_str().unwrap()];
    let printed = well_with(&daemon, &[&set[..], &file].concat());
    assert_eq!(printed, "far: the credential of alice is set\n");
    let mut piped = pillion(&[&set[..], &["bob b/c"]].concat());
    piped.env("PILLION_SOCKET", &daemon.socket);
    success(&run_with_input(&mut piped, "bob-bob-bob"));
    for (user, account) in [("alice", "alice"), ("bob b/c", "bob")] {
        let call = ["tools", "call", "far_echo", "--user", user, "--json"];
        let printed = well_with(&daemon, &call);
        assert_contains!(printed, &format!("\"account\":\"{account}\""));
    }
    let tools = well(&daemon, "servers tools far --user alice");
    assert_contains!(tools, "far_files_of_alice");
    assert_lacks!(tools, "of_bob");
    let list = ["servers", "credentials", "list", "far"];
    let listed = well_with(&daemon, &list);
    assert_contains!(listed, "alice", "bob b/c", "bearer");
    assert_lacks!(listed, "alice-alice", "bob-bob");
    let remove = [
        "servers",
        "credentials",
        "remove",
        "far",
        "--user",
        "bob b/c",
    ];
    well_with(&daemon, &remove);
    assert_lacks!(well_with(&daemon, &list), "bob");
    let call = ["tools", "call", "far_echo", "--user", "bob b/c"];
    assert_contains!(badly_with(&daemon, &call, 1), "(denied)");
    assert_contains!(badly_with(&daemon, &remove, 1), "no credential");
    // A password needs a user name, and an empty value is not a secret.
    let nothing = "servers credentials set far --user carol --file /dev/null";
    let basic = format!("{nothing} --type basic");
    assert_contains!(badly(&daemon, &basic, 2), "--username");
    badly(&daemon, nothing, 2);
}

fn rotate_and_call(daemon: &Daemon, key: &Path) {
    let before = std::fs::read(key).unwrap();
    let printed = well_with(daemon, &["vault", "rotate"]);
    assert_contains!(printed, "has the new key");
    assert_ne!(std::fs::read(key).unwrap(), before);
    // The old key is kept in another file.
    let old_key = printed.trim().rsplit(' ').next().unwrap();
    assert!(old_key.contains("vault.key.old"), "{printed}");
    assert_eq!(std::fs::read(old_key).unwrap(), before);
    assert!(!key.with_extension("key.new").exists());
    let mode = std::fs::metadata(key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn l1_the_vaults_key_is_changed_by_one_command_with_and_without_a_sidecar() {
    let far = echo();
    let mut daemon = Daemon::with_vault("");
    let key = daemon.key_path();
    let url = &far.url;
    let add = |name: &str| format!("servers add {name} --url {url} --bearer-env FAR_TOKEN");
    well(&daemon, &add("far"));
    rotate_and_call(&daemon, &key);
    well(&daemon, "tools call far_echo");
    // Later secrets are encrypted with the new key.
    well(&daemon, &add("two"));
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
        well_with(&daemon, &["tools", "call", tool]);
    }
    let mut sent = far.credentials();
    sent.dedup();
    assert_eq!(sent, ["Bearer hunter2-hunter2"]);
}

#[test]
fn f2_a_program_is_only_added_to_the_store_of_the_running_sidecar() {
    let daemon = Daemon::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join("other.db");
    let mut add = pillion(&["servers", "add", "notes", "--command", "cat"]);
    add.env("PILLION_SOCKET", &daemon.socket);
    add.env("PILLION__STORE__LOCATION", &other);
    let error = failure(&add.output().unwrap(), 1);
    assert_contains!(error, "uses another store");
    assert!(!other.exists());
}
