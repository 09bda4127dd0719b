//! The store's file is deleted while the sidecar runs.

use std::fs::{self, File};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_WRLCK, SEEK_SET, flock};

use crate::prelude::*;

fn calculate(daemon: &Daemon) -> Value {
    let arguments = json!({"expression": "6 * 7"});
    daemon.execute("calculator", &arguments)["result"].clone()
}

#[test]
fn f4_no_call_is_acknowledged_while_the_store_file_is_removed() {
    let daemon = Daemon::start();
    assert_eq!(calculate(&daemon)["success"], true);
    assert_eq!(daemon.get("/readyz").status, 200);
    let file = daemon.store_path();
    let moved = daemon.directory().join("moved.db");
    fs::rename(&file, &moved).unwrap();
    let rejected = calculate(&daemon);
    assert_eq!(rejected["success"], false);
    assert_json!(rejected["error_code"], "unavailable");
    let ready = daemon.get("/readyz").expect(503);
    assert_eq!(ready["status"], "store_gone");
    let expected = "pillion.db' was deleted or replaced";
    assert_contains!(ready["store_error"].text(), expected);
    daemon.wait_for_log("The store file is missing or was replaced");
    // Calls that fail in the same way do not fill the log.
    for _ in 0..300 {
        assert_eq!(calculate(&daemon)["success"], false);
    }
    let log = daemon.log();
    let errors = log.lines().filter(|line| line.contains("ERROR")).count();
    assert!(errors <= 6, "{log}");
    fs::rename(&moved, &file).unwrap();
    assert_eq!(calculate(&daemon)["success"], true);
    eventually("it is ready", || daemon.get("/readyz").status == 200);
    let log = daemon.log();
    assert_contains!(log, "can be written to the call log again");
    let about_calls = || log.lines().filter(|line| line.contains("the call log"));
    let lines = about_calls().filter(|line| line.contains("is rejected"));
    let repeated = about_calls().filter_map(|line| {
        let (_, number) = line.split_once("\"repeated\":")?;
        number.split([',', '}']).next()?.parse::<usize>().ok()
    });
    assert_eq!(lines.count() + repeated.sum::<usize>(), 301, "{log}");
}

/// Takes SQLite's lock for writers of a database with a write-ahead log, until the file is dropped.
pub fn lock(index: &Path) -> File {
    /// See "WAL-Index Locks" in <https://www.sqlite.org/walformat.html>.
    const WRITE_LOCK: i64 = 120;
    let file = File::options().read(true).write(true).open(index).unwrap();
    let lock = flock {
        l_type: F_WRLCK.try_into().unwrap(),
        l_whence: SEEK_SET.try_into().unwrap(),
        l_start: WRITE_LOCK,
        l_len: 1,
        l_pid: 0,
    };
    eventually("the lock is free", || {
        fcntl(&file, FcntlArg::F_SETLK(&lock)).is_ok()
    });
    file
}

#[test]
fn f4_a_sidecar_without_calls_is_not_ready_while_its_store_is_locked() {
    let daemon = Daemon::start();
    let ready = || daemon.get("/readyz");
    assert_eq!(ready().status, 200);
    let lock = lock(&daemon.directory().join("pillion.db-shm"));
    eventually("the lock is noticed", || ready().status == 503);
    let response = ready().json();
    assert_eq!(response["status"], "store_unavailable");
    assert_contains!(response["store_error"].text(), "locked");
    drop(lock);
    eventually("it is ready", || ready().status == 200);
}
