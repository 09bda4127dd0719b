use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pillion_testkit::checkout;
use tempfile::TempDir;

/// The real binary. Cargo builds it for tests of its own package only, so this does.
static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "-p", "pillion", "--bin", "pillion"])
        .current_dir(checkout());
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    // What cargo told this test of its package would make build scripts run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&*name);
        }
    }
    assert!(build.status().unwrap().success(), "cannot build pillion");
    // This test runs from the directory `deps` beside the binary.
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("pillion")
});

/// Where the binary is.
pub fn pillion_path() -> &'static Path {
    &BINARY
}

/// A command of the binary, with an environment of its own.
pub fn pillion(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*BINARY);
    command.args(arguments).env_clear();
    command
}

/// Runs a command to its end.
pub fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    pillion(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits until something is so, at most half a minute.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running `pillion serve`, killed at the end of the test if it has not ended by then.
pub struct Daemon {
    child: Child,
    directory: Arc<TempDir>,
    log: PathBuf,
    pub socket: PathBuf,
}

impl Daemon {
    pub fn start() -> Self {
        Self::with_config("", &[])
    }

    /// With a configuration file of this text and these variables.
    pub fn with_config(toml: &str, variables: &[(&str, &str)]) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        std::fs::write(directory.path().join("pillion.toml"), toml).unwrap();
        Self::start_in(directory, "log", variables)
    }

    /// Another one with the same configuration and socket.
    pub fn again(&self) -> Self {
        self.again_with(&[])
    }

    /// Starts another sidecar with this configuration and socket, and with these variables.
    pub fn again_with(&self, variables: &[(&str, &str)]) -> Self {
        Self::start_in(Arc::clone(&self.directory), "log-again", variables)
    }

    /// Another one with the same configuration and socket that takes over from this one.
    pub fn successor(&self) -> Self {
        let log = format!("{}-next", self.log.display());
        Self::spawn_in(Arc::clone(&self.directory), &log, &[], &["--take-over"])
    }

    fn start_in(directory: Arc<TempDir>, log: &str, variables: &[(&str, &str)]) -> Self {
        Self::spawn_in(directory, log, variables, &[])
    }

    fn spawn_in(
        directory: Arc<TempDir>,
        log: &str,
        variables: &[(&str, &str)],
        options: &[&str],
    ) -> Self {
        let socket = directory.path().join("run/pillion.sock");
        let log = directory.path().join(log);
        let child = pillion(&["serve"])
            .arg("--config")
            .arg(directory.path().join("pillion.toml"))
            .arg("--socket")
            .arg(&socket)
            .env("XDG_STATE_HOME", directory.path())
            .args(options)
            .env(
                "PILLION__STORE__LOCATION",
                directory.path().join("pillion.db"),
            )
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut daemon = Self {
            child,
            directory,
            log,
            socket,
        };
        eventually("the sidecar listens", || {
            assert!(
                daemon.child.try_wait().unwrap().is_none(),
                "{}",
                daemon.log()
            );
            daemon.log().contains("Listening on")
        });
        daemon
    }

    /// Where its configuration is, and `pillion.db`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), signal).unwrap();
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the sidecar has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Kills it, so that it can tidy up nothing.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A process that a test starts by itself, and that ends with the test, also where that fails.
pub struct Guarded(Child);

impl Guarded {
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Deref for Guarded {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_process_ends_with_a_test_that_fails() {
    let mut started = 0;
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let process = Guarded::spawn(Command::new("sleep").arg("600"));
        started = process.id();
        std::panic::resume_unwind(Box::new("it fails"));
    }));
    assert!(failed.is_err());
    let id = Pid::from_raw(i32::try_from(started).unwrap());
    assert_eq!(kill(id, None), Err(nix::errno::Errno::ESRCH));
}
