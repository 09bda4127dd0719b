//! The program's memory contains credentials: it is not written to core dumps, and no other process
//! of the user can read it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};

use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};

use crate::prelude::*;
use crate::program::{Guarded, pillion_path};

/// The ID of a user without privileges.
const UNPRIVILEGED_UID: u32 = 65_534;

/// Starts a command in a shell that allows core dumps, as another user if this process is root.
fn start_dumpable(directory: &Path, command: &str, arguments: &[&str]) -> Guarded {
    let script = "ulimit -c unlimited 2>/dev/null; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, command])
        .args(arguments)
        .env_clear()
        .env("XDG_STATE_HOME", directory)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if geteuid().is_root() {
        shell.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    }
    Guarded::spawn(&mut shell)
}

fn limit_of(process: &Guarded) -> String {
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let soft = line.unwrap().split_whitespace().nth(4);
    soft.unwrap().to_owned()
}

/// Returns the owner of files in `/proc` that only a process with the right to read the memory of the
/// process can read: root, unless the process is dumpable.
fn owner_of(process: &Guarded) -> u32 {
    fs::metadata(format!("/proc/{}/environ", process.id()))
        .unwrap()
        .uid()
}

#[test]
fn l1_a_process_with_secrets_leaves_no_core_dump() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    let pillion = path.join("program");
    // Another process copies the program, because a program cannot be run while a descriptor writes
    // to it.
    let copied = Command::new("cp")
        .arg(pillion_path())
        .arg(&pillion)
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&pillion, PermissionsExt::from_mode(0o755)).unwrap();
    let pillion = pillion.to_str().unwrap();
    let (socket, other) = (path.join("run/s"), path.join("none"));
    let (socket, other) = (socket.to_str().unwrap(), other.to_str().unwrap());
    // An unprotected process is dumpable by its own user.
    let plain = start_dumpable(path, "sleep", &["600"]);
    eventually("the process runs", || owner_of(&plain) != 0);
    for arguments in [
        &["serve", "--socket", socket][..],
        &["mcp-stdio", "--standalone", "--socket", other],
    ] {
        let mut process = start_dumpable(path, pillion, arguments);
        eventually("the limit is set", || limit_of(&process) == "0");
        eventually("the memory is protected", || owner_of(&process) == 0);
        if arguments[0] == "serve" {
            // Clients of the same user still reach the sidecar.
            eventually("the sidecar listens", || {
                pillion_client::Client::new(socket)
                    .fetch(route::STATUS)
                    .is_ok()
            });
        }
        let id = Pid::from_raw(i32::try_from(process.id()).unwrap());
        kill(id, Signal::SIGABRT).unwrap();
        let status = process.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(Signal::SIGABRT as i32),
            "{arguments:?}"
        );
        assert!(!status.core_dumped(), "{arguments:?}");
    }
}

#[test]
fn l1_the_unit_file_forbids_core_dumps_and_limits_the_memory() {
    let unit = pillion_testkit::checkout().join("scripts/debian/sidecar/pillion.service");
    let unit = fs::read_to_string(unit).unwrap();
    for line in ["LimitCORE=0", "MemoryMax=50%", "OOMPolicy=continue"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
}
