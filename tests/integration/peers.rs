use std::os::unix::fs::PermissionsExt;

use pillion_testkit::root_or_skip;

use crate::prelude::*;

/// The ID of a user that does not exist.
const OTHER_USER: &str = "54321";

/// Returns a command that runs another command as another user.
fn other_user() -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        OTHER_USER,
        "--regid",
        OTHER_USER,
        "--clear-groups",
    ]);
    command
}

/// Runs `curl` on the socket as another user. Without the rights of root, skips the rest of the test
/// and returns `None`.
fn as_other_user(socket: &Path, target: &str) -> Option<Output> {
    if !root_or_skip() {
        return None;
    }
    let mut command = other_user();
    command.args("curl --silent --include --max-time 20 --unix-socket".split(' '));
    command.arg(socket).arg(format!("http://pillion{target}"));
    Some(command.output().unwrap())
}

/// Starts a daemon whose socket directory every user may enter.
fn daemon(rules: &str) -> Daemon {
    let toml = format!("[socket]\nmode = \"0666\"\n{rules}\n");
    let daemon = Daemon::with_config(&toml);
    let directory = daemon.socket.parent().unwrap();
    for directory in [directory, directory.parent().unwrap()] {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    }
    daemon
}

#[test]
fn l3_a_process_of_a_user_without_a_rule_is_refused() {
    let daemon = daemon("allow_uids = [4711]");
    assert_eq!(daemon.get("/healthz").status, 200);
    let Some(output) = as_other_user(&daemon.socket, "/healthz") else {
        return;
    };
    let text = stdout(&output);
    assert_starts_with!(text, "HTTP/1.1 403 ");
    assert_contains!(
        text,
        "application/problem+json",
        "\"error_code\":\"denied\""
    );
    assert_contains!(daemon.log(), "\"uid\":54321");
}

/// Opens 60 connections to the socket, sends nothing, prints the number of connections, and after a
/// line of input the number of closed connections.
const SILENT: &str = r#"
use IO::Socket::UNIX;
alarm 30;
$| = 1;
my @connections = map { IO::Socket::UNIX->new(Peer => $ARGV[0]) or die } 1..60;
print scalar(@connections), "\n";
<STDIN>;
my $closed = grep { my $read = sysread($_, my $byte, 1); defined $read && $read == 0 } @connections;
print "$closed\n";
"#;

#[test]
fn l3_refused_processes_do_not_use_up_connections() {
    let daemon = daemon("allow_uids = [4711]\n[http]\nmax_connections = 4");
    if !root_or_skip() {
        return;
    }
    let mut client = other_user()
        .args(["perl", "-e", SILENT])
        .arg(&daemon.socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut next_line = || output.next().unwrap().unwrap();
    assert_eq!(next_line(), "60");
    for _ in 0..8 {
        assert_eq!(daemon.get("/healthz").status, 200);
    }
    writeln!(client.stdin.take().unwrap()).unwrap();
    assert_eq!(
        next_line(),
        "60",
        "long before a header is due, all are closed"
    );
    assert!(client.wait().unwrap().success());
}

#[test]
fn l3_a_process_of_a_user_with_a_rule_is_admitted() {
    let daemon = daemon(&format!("allow_gids = [{OTHER_USER}]"));
    let Some(output) = as_other_user(&daemon.socket, "/api/v1/tools/") else {
        return;
    };
    assert_starts_with!(stdout(&output), "HTTP/1.1 200 ");
    // The log line of the request contains the user.
    let log = daemon.log();
    let line = log.lines().find(|line| line.contains("Request finished"));
    let line: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
    assert_json!(line["spans"][0]["uid"], 54321);
    assert_eq!(line["spans"][0]["client"], "uid:54321");
    assert!(line["spans"][0]["pid"].as_i64().unwrap() > 1);
}

#[test]
fn l3_a_world_accessible_socket_requires_rules() {
    for (variable, value, expected) in [
        ("MODE", "0666", "socket.mode: mode 0666 allows all users"),
        (
            "ALLOW_USERS",
            "[\"no such user\"]",
            "there is no user 'no such user'",
        ),
    ] {
        let variable = format!("PILLION__SOCKET__{variable}");
        let output = run(&["serve"], &[(&variable, value)]);
        assert_contains!(failure(&output, 2), expected);
    }
}
