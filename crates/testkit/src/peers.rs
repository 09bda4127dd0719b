use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A real MCP server of `tests/peers`, in its own process group, which ends when this value is
/// dropped.
#[derive(Debug)]
pub struct Peer {
    /// The URL that clients connect to.
    pub url: String,
    name: String,
    port: u16,
    process: Child,
}

impl Peer {
    /// Starts the server and waits until it answers. Returns `None`, with a message on standard
    /// error, if its packages are not installed.
    ///
    /// # Panics
    /// If there is no server of that name; if it does not start; or if it is not installed and
    /// `PILLION_REQUIRE_PEERS` is `1`.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        is_installed(name).then(|| {
            // If another process takes the port before the server does, the next port is tried.
            let started = (0..5).find_map(|_| Self::try_start(name, free_port()));
            started.unwrap_or_else(|| panic!("'{name}' does not start"))
        })
    }

    /// Returns the program and arguments of a server with the stdio transport, for the caller to
    /// run. Returns `None` as [`new`](Self::new) does.
    ///
    /// # Panics
    /// If there is no server of that name, or it has no stdio transport; or if it is not installed
    /// and `PILLION_REQUIRE_PEERS` is `1`.
    #[must_use]
    pub fn command(name: &str) -> Option<(String, Vec<String>)> {
        is_installed(name).then(|| {
            let output = Command::new(script()).args(["--command", name]).output();
            let output = String::from_utf8(output.unwrap().stdout).unwrap();
            let mut lines = output.lines().map(str::to_owned);
            let program = lines
                .next()
                .unwrap_or_else(|| panic!("'{name}' has no command line"));
            (program, lines.collect())
        })
    }

    /// Stops the server and starts it again at the same URL, without its sessions.
    ///
    /// # Panics
    /// If the server does not start again.
    #[must_use]
    pub fn restart(self) -> Self {
        let (name, port) = (self.name.clone(), self.port);
        drop(self);
        wait_until_free(port);
        let started = Self::try_start(&name, port);
        started.unwrap_or_else(|| panic!("'{name}' does not start again"))
    }

    /// Kills the server with SIGKILL, so that it finishes nothing, and starts it again at the same
    /// URL.
    ///
    /// # Panics
    /// If the server does not start again.
    #[must_use]
    pub fn kill_and_restart(self) -> Self {
        killpg(self.group(), Signal::SIGKILL).unwrap();
        self.restart()
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    fn try_start(name: &str, port: u16) -> Option<Self> {
        let mut process = Command::new(script())
            .args([name, &port.to_string()])
            .env("PILLION_PEER_STDIN", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        // From here on, dropping `peer` ends the process.
        let peer = Self {
            url: line.trim().to_owned(),
            name: name.to_owned(),
            port,
            process,
        };
        (!peer.url.is_empty()).then_some(peer)
    }
}

fn is_installed(name: &str) -> bool {
    let check = Command::new(script()).args(["--check", name]).status();
    // An unknown name must not count as a server that is not installed: its test would always be
    // skipped.
    let code = check.unwrap().code();
    assert!(matches!(code, Some(0 | 3)), "There is no server '{name}'");
    let installed = code == Some(0);
    if !installed {
        let required = std::env::var("PILLION_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "The packages of '{name}' are not installed");
        crate::skip(&format!("the packages of '{name}' are not installed"));
    }
    installed
}

fn script() -> PathBuf {
    crate::checkout().join("tests/peers/start")
}

/// Waits until the port is free: a killed server ends after the script that started it, and much
/// later on a busy machine.
fn wait_until_free(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(Instant::now() < deadline, "port {port} stays taken");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn free_port() -> u16 {
    let listener = crate::listen();
    listener.local_addr().unwrap().port()
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = killpg(self.group(), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "There is no server 'no-such-server'")]
    fn an_unknown_peer_is_an_error_and_not_skipped() {
        let _ = Peer::new("no-such-server");
    }
}
