use std::io::Write;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pillion_client::Client;
use pillion_testkit::checkout;
use pillion_wire::{ToolList, route};
use serde_json::Value;
use tempfile::TempDir;

use crate::http;

/// The path of the built binary. Cargo builds a binary only for tests of its own package, so the
/// first use builds it.
static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "-p", "pillion", "--bin", "pillion"])
        .current_dir(checkout());
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    // Variables that cargo set for this test's package would make build scripts run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&*name);
        }
    }
    assert!(build.status().unwrap().success(), "cannot build pillion");
    // The test binary is in the directory `deps` beside the binary.
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("pillion")
});

/// Returns the path of the binary.
pub fn pillion_path() -> &'static Path {
    &BINARY
}

/// Returns a command of the binary with an empty environment.
pub fn pillion(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*BINARY);
    command.args(arguments).env_clear();
    command
}

/// Runs a command until it exits.
pub fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    pillion(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs a command with this input until it exits, which it may do before it has read everything.
pub fn run_with_input(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take().unwrap().write_all(input.as_ref()));
    child.wait_with_output().unwrap()
}

/// Returns the standard output as JSON.
pub fn stdout_json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the standard output of a command that has to succeed.
pub fn success(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

/// Returns the standard error of a command that has to exit with this code.
pub fn failure(output: &Output, code: i32) -> String {
    let error = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{error}");
    error
}

/// Writes a key to `vault.key` in the directory. Returns the section of the configuration.
pub fn vault(directory: &Path) -> String {
    let path = directory.join("vault.key");
    std::fs::write(&path, [9; 32]).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    format!("[vault]\nkey_file = \"{}\"\n", path.display())
}

/// Waits until a condition holds, for at most two minutes, because other programs may need the
/// processors.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `find` returns a value, like [`eventually`].
pub fn eventually_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, || {
        found = find();
        found.is_some()
    });
    found.unwrap()
}

/// A running `pillion serve`, killed at the end of the test if it still runs.
pub struct Daemon {
    child: Child,
    directory: Arc<TempDir>,
    log: PathBuf,
    pub socket: PathBuf,
}

impl Daemon {
    pub fn start() -> Self {
        Self::with_config("")
    }

    /// Starts a daemon with this configuration file.
    pub fn with_config(toml: &str) -> Self {
        Self::with_variables(toml, &[])
    }

    /// Starts a daemon with this configuration file and these variables.
    pub fn with_variables(toml: &str, variables: &[(&str, &str)]) -> Self {
        Self::with_config_in(tempfile::tempdir().unwrap(), toml, variables)
    }

    /// Starts a daemon that also listens on a free TCP port, with these tokens and settings of
    /// `[tcp]`, which may be followed by other sections.
    pub fn with_tokens(tokens: &str, more: &str) -> (Self, SocketAddr) {
        let address = http::free_address();
        let toml = format!("[tcp]\nlisten = \"{address}\"\ntokens_env = \"TOKENS\"\n{more}\n");
        (Self::with_variables(&toml, &[("TOKENS", tokens)]), address)
    }

    /// Like [`with_config`](Self::with_config), with a key that encrypts secrets.
    pub fn with_vault(toml: &str) -> Self {
        Self::with_vault_and(toml, &[])
    }

    /// Starts a daemon like [`with_vault`](Self::with_vault), with these environment variables.
    pub fn with_vault_and(toml: &str, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let toml = format!("{toml}\n{}", vault(directory.path()));
        Self::with_config_in(directory, &toml, variables)
    }

    fn with_config_in(directory: TempDir, toml: &str, variables: &[(&str, &str)]) -> Self {
        let directory = Arc::new(directory);
        // The last line is added because an empty file is an error, and a file that ends within a
        // line is not applied.
        let toml = format!("{toml}\n# The end.\n");
        std::fs::write(directory.path().join("pillion.toml"), toml).unwrap();
        Self::start_in(directory, "log", variables)
    }

    /// Starts another daemon with the same configuration and socket.
    pub fn again(&self) -> Self {
        self.again_with(&[])
    }

    /// Kills this daemon and starts another one with the same configuration and socket.
    pub fn restart(&mut self) -> Self {
        self.kill();
        self.again()
    }

    /// Starts another sidecar with this configuration and socket, and with these variables.
    pub fn again_with(&self, variables: &[(&str, &str)]) -> Self {
        Self::start_in(Arc::clone(&self.directory), "log-again", variables)
    }

    /// Starts another sidecar with this configuration and socket, and with these options.
    pub fn again_with_options(&self, options: &[&str]) -> Self {
        Self::spawn_in(Arc::clone(&self.directory), "log-again", &[], options)
    }

    /// Starts another daemon with the same configuration and socket that takes over from this one.
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

    /// Returns the directory of the configuration and of `pillion.db`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn config_path(&self) -> PathBuf {
        self.directory().join("pillion.toml")
    }

    pub fn store_path(&self) -> PathBuf {
        self.directory().join("pillion.db")
    }

    /// Returns the path of the vault key of [`with_vault`](Self::with_vault).
    pub fn key_path(&self) -> PathBuf {
        self.directory().join("vault.key")
    }

    /// Returns a command with the socket, configuration and store of this daemon in its environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = pillion(arguments);
        command
            .env("PILLION_SOCKET", &self.socket)
            .env("PILLION_CONFIG", self.config_path())
            .env("PILLION__STORE__LOCATION", self.store_path());
        command
    }

    /// Runs a command with the option `--socket` until it exits.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let socket = ["--socket", self.socket.to_str().unwrap()];
        run(&[arguments, &socket].concat(), &[])
    }

    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }

    /// Returns the tools that the sidecar lists.
    pub fn tools(&self) -> ToolList {
        self.client().fetch(route::LIST_TOOLS).unwrap()
    }

    pub fn tool_names(&self) -> Vec<String> {
        let tools = self.tools().tools.into_iter();
        tools.map(|tool| tool.name).collect()
    }

    /// Returns whether the sidecar lists the tool.
    pub fn offers(&self, tool: &str) -> bool {
        self.tool_names().iter().any(|name| name == tool)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn wait_for_log(&self, text: &str) {
        eventually(&format!("the log contains {text:?}"), || {
            self.log().contains(text)
        });
    }

    /// Returns how often the log contains the text.
    pub fn count_logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Returns a memory size of the process, such as `VmRSS`, in bytes: proc_pid_status(5).
    pub fn memory_bytes(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kilobytes = line.split_whitespace().nth(1).unwrap();
        1024 * kilobytes.parse::<u64>().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), signal).unwrap();
    }

    /// Waits for the exit of the daemon.
    pub fn wait(&mut self) -> ExitStatus {
        eventually_some("the sidecar has ended", || self.child.try_wait().unwrap())
    }

    /// Kills the daemon, without a shutdown.
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

/// A process of a test that ends with the test, also if the test fails.
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
