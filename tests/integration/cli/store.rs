use std::os::unix::fs::{PermissionsExt, chown};

use tempfile::TempDir;

use crate::prelude::*;
use crate::program::pillion_path;

fn store(arguments: &[&str], location: &Path) -> std::process::Output {
    let location = location.to_str().unwrap();
    run(
        &[&["store"], arguments].concat(),
        &[("PILLION__STORE__LOCATION", location)],
    )
}

#[test]
fn a_store_is_created_checked_and_copied() {
    let directory = TempDir::new().unwrap();
    let (file, copy) = (
        directory.path().join("new/p.db"),
        directory.path().join("copy.db"),
    );
    let output = store(&["check"], &file);
    assert_contains!(failure(&output, 1), "does not exist");
    assert!(!file.exists(), "looking makes nothing");

    // Whatever the umask is, the files are accessible only to their user.
    let made = Command::new("sh")
        .args(["-c", r#"umask 022; exec "$0" store migrate"#])
        .arg(pillion_path())
        .env("PILLION__STORE__LOCATION", &file)
        .output()
        .unwrap();
    assert_starts_with!(stdout(&made), "Created the store");
    for (path, mode) in [(file.parent().unwrap(), 0o700), (&file, 0o600)] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
    }
    assert_contains!(stdout(&store(&["migrate"], &file)), "already");
    assert_starts_with!(stdout(&store(&["check"], &file)), "Store OK");

    let to = copy.to_str().unwrap();
    assert!(store(&["backup", to], &file).status.success());
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_starts_with!(stdout(&store(&["check"], &copy)), "Store OK");
    let output = store(&["backup", to], &file);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("(invalid_input)") || stderr(&output).contains("already"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_store_of_another_user_is_not_changed() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("p.db");
    // Only root can change owners; the root directory belongs to another user.
    let (target, owner) = if nix::unistd::geteuid().is_root() {
        chown(directory.path(), Some(12_345), None).unwrap();
        (file.clone(), "12345")
    } else {
        (PathBuf::from("/pillion-test.db"), "id 0")
    };
    let rejected = |output: &std::process::Output| {
        let error = stderr(output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_contains!(error, "belongs to another user", owner);
    };
    rejected(&store(&["migrate"], &target));
    assert!(!target.exists(), "nothing is made");
    if target == file {
        chown(directory.path(), Some(0), None).unwrap();
        assert!(store(&["migrate"], &file).status.success());
        chown(&file, Some(12_345), None).unwrap();
        let copy = directory.path().join("copy.db");
        let backup = ["backup", copy.to_str().unwrap()];
        for arguments in [&["check"][..], &["migrate"], &backup] {
            rejected(&store(arguments, &file));
        }
        assert!(!copy.exists());
    }
}

#[test]
fn a_file_that_is_not_a_store_is_not_changed() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("letter.txt");
    let text = "Dear Sir or Madam, ".repeat(1000);
    std::fs::write(&file, &text).unwrap();
    for command in ["check", "migrate"] {
        let output = store(&[command], &file);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(!stderr(&output).is_empty());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_copy_of_a_store_in_use_contains_every_acknowledged_call() {
    let daemon = Daemon::start();
    for number in 0..20 {
        let body = format!("{{\"expression\": \"{number} + 1\"}}");
        daemon.post("/api/v1/tools/execute/calculator", body);
    }
    let copy = daemon.directory().join("copy.db");
    success(&store(
        &["backup", copy.to_str().unwrap()],
        &daemon.store_path(),
    ));
    let location = ("PILLION__STORE__LOCATION", copy.to_str().unwrap());
    let again = Daemon::with_variables("", &[location]);
    assert_eq!(again.recorded("").len(), 20);
}
