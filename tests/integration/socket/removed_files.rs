//! Removed or replaced files of a running sidecar's sockets.

use std::fs::{self, Permissions};
use std::os::unix::process::CommandExt;

use pillion_testkit::root_or_skip;

use super::*;
use crate::program::Guarded;

fn serve(socket: &Path, options: &[&str]) -> Output {
    let mut arguments = vec!["serve", "--socket", socket.to_str().unwrap()];
    arguments.extend(options);
    program::run(&arguments, &[("PILLION__STORE__LOCATION", "memory")])
}

fn sibling(socket: &Path, ending: &str) -> std::path::PathBuf {
    format!("{}{ending}", socket.display()).into()
}

/// Returns whether a process listens on the socket, whose file exists before anything listens.
fn is_listening(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

#[test]
fn a_socket_whose_file_was_removed_is_bound_again() {
    let mut daemon = Daemon::start();
    let socket = daemon.socket.clone();
    fs::remove_file(&socket).unwrap();
    eventually("the socket is bound again", || is_listening(&socket));
    assert_eq!(socket.get("/healthz").status, 200);
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o7777, 0o600);
    eventually("the log has the message", || {
        let lines = "was removed or replaced: listening on";
        daemon.log().contains(lines)
    });
    let expected = "another process already serves";
    assert_contains!(program::stderr(&serve(&socket, &[])), expected);
    // The successor serves the socket that clients find.
    let mut next = daemon.successor();
    assert_eq!(socket.get("/healthz").status, 200);
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
    assert_eq!(socket.get("/healthz").status, 200);
    next.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(next.wait().code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_successor_takes_over_although_files_were_removed() {
    let mut daemon = Daemon::start();
    let socket = daemon.socket.clone();
    // All files are removed at once, before the sidecar notices.
    let all = &["", ".lock", ".control"];
    for endings in [&all[..1], &all[2..], &all[..2], all] {
        for ending in endings {
            fs::remove_file(sibling(&socket, ending)).unwrap();
        }
        let next = daemon.successor();
        assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
        eventually("clients find the successor", || {
            is_listening(&socket) && socket.get("/healthz").status == 200
        });
        daemon = next;
    }
    fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    eventually("the directory and all in it are back", || {
        sibling(&socket, ".control").exists() && is_listening(&socket)
    });
    assert_eq!(socket.get("/healthz").status, 200);
    let directory = fs::metadata(socket.parent().unwrap()).unwrap();
    assert_eq!(directory.mode() & 0o7777, 0o700);
    let expected = "another process already serves";
    assert_contains!(program::stderr(&serve(&socket, &[])), expected);
}

#[test]
fn in_a_directory_writable_by_others_the_socket_is_not_bound_again() {
    let daemon = Daemon::start();
    let socket = &daemon.socket;
    let directory = socket.parent().unwrap();
    fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    fs::remove_file(socket).unwrap();
    eventually("the log says why", || {
        let log = daemon.log();
        log.contains("Cannot restore the socket files") && log.contains("chmod o-w")
    });
    assert!(!socket.exists());
    fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
    eventually("the socket is bound again", || is_listening(socket));
    assert_eq!(socket.get("/healthz").status, 200);
}

#[test]
fn a_start_with_only_a_lock_file_left_fails_clearly() {
    let daemon = Daemon::start();
    let directory = daemon.socket.parent().unwrap();
    // The permissions keep the sidecar from binding again during this test.
    fs::set_permissions(directory, Permissions::from_mode(0o1777)).unwrap();
    fs::remove_file(&daemon.socket).unwrap();
    fs::create_dir(&daemon.socket).unwrap();
    daemon.wait_for_log("exists and is not a socket");
    fs::remove_dir(&daemon.socket).unwrap();
    let rejected = program::stderr(&serve(&daemon.socket, &[]));
    let says = rejected.contains("its socket file is gone")
        // The sidecar may have bound the socket again already.
        || (rejected.contains("another process already serves") && daemon.socket.exists());
    assert!(says, "{rejected}");
}

#[test]
fn a_live_socket_of_another_process_is_not_replaced() {
    let daemon = Daemon::start();
    let socket = &daemon.socket;
    fs::remove_file(socket).unwrap();
    let Ok(_other) = UnixListener::bind(socket) else {
        return; // The sidecar was faster.
    };
    daemon.wait_for_log("Cannot restore the socket files");
    let found = fs::metadata(socket).unwrap().ino();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(fs::metadata(socket).unwrap().ino(), found);
}

#[test]
fn l3_a_control_socket_of_another_user_is_not_used() {
    if !root_or_skip() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
    let socket = directory.path().join("s");
    let script = "import socket, sys, time\n\
        s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('ready', flush=True)\n\
        c, _ = s.accept(); print(c.recv(100), flush=True); time.sleep(60)";
    let mut other = Guarded::spawn(
        Command::new("python3")
            .args(["-c", script])
            .arg(sibling(&socket, ".control"))
            .uid(65_534)
            .gid(65_534)
            .stdout(Stdio::piped()),
    );
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let expected = "belongs to a process of user 65534";
    assert_contains!(failure(&serve(&socket, &["--take-over"]), 1), expected);
    // The other process received no bytes.
    assert_eq!(lines.next().unwrap().unwrap(), "b''");
}
