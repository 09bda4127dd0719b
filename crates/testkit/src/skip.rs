use std::fs::OpenOptions;
use std::io::Write;

/// Reports that the current test, or the rest of it, cannot run on this machine, for `reason`.
///
/// Appends a line `TEST: REASON` to the file that the environment variable `PILLION_SKIPPED_TESTS`
/// names. `scripts/test` prints these lines last.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("SKIPPED: {line}");
    let Some(file) = std::env::var_os("PILLION_SKIPPED_TESTS") else {
        return;
    };
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .unwrap();
    // The line is written in one piece, because other test processes write to the file at the same
    // time.
    file.write_all(line.as_bytes()).unwrap();
}

/// Returns whether the test runs as root. If not, reports the rest of the test as skipped.
#[must_use]
pub fn root_or_skip() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip("needs root");
    }
    is_root
}
