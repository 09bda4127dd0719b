use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A real MCP server of `tests/peers`, in a process group of its own that ends with this.
#[derive(Debug)]
pub struct Peer {
    /// Where clients connect to.
    pub url: String,
    name: String,
    port: u16,
    process: Child,
}

impl Peer {
    /// Starts the server, waiting until it answers. None, and a message on standard error,
    /// when its packages are not installed.
    ///
    /// # Panics
    /// When there is no server of that name; when it does not start; and when it is not
    /// installed and `PILLION_REQUIRE_PEERS` is `1`.
    #[must_use]
    pub fn start(name: &str) -> Option<Self> {
        is_installed(name).then(|| {
            // Somebody else may take the port before the server does: then the next one.
            let started = (0..5).find_map(|_| Self::try_start(name, free_port()));
            started.unwrap_or_else(|| panic!("'{name}' does not start"))
        })
    }

    /// The program and the arguments of a server that speaks over its standard streams;
    /// whoever asks runs it. None as for [`start`](Self::start).
    ///
    /// # Panics
    /// When there is no server of that name, or it does not speak over its standard streams;
    /// and when it is not installed and `PILLION_REQUIRE_PEERS` is `1`.
    #[must_use]
    pub fn command(name: &str) -> Option<(String, Vec<String>)> {
        is_installed(name).then(|| {
            let output = Command::new(script()).args(["--command", name]).output();
            let output = String::from_utf8(output.unwrap().stdout).unwrap();
            let mut lines = output.lines().map(str::to_owned);
            let program = lines.next();
            let program = program.unwrap_or_else(|| panic!("'{name}' has no command line"));
            (program, lines.collect())
        })
    }

    /// Ends the server and starts it again at the same URL: it has then forgotten every
    /// session.
    ///
    /// # Panics
    /// When it does not start again.
    #[must_use]
    pub fn restart(self) -> Self {
        let (name, port) = (self.name.clone(), self.port);
        drop(self);
        wait_until_free(port);
        let started = Self::try_start(&name, port);
        started.unwrap_or_else(|| panic!("'{name}' does not start again"))
    }

    /// The same with SIGKILL: the server finishes nothing first.
    ///
    /// # Panics
    /// When it does not start again.
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
        // From here on dropping it ends the process.
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
    // A name that does not exist must not pass for a server that is not installed: its test
    // would be skipped for ever.
    let code = check.unwrap().code();
    assert!(matches!(code, Some(0 | 3)), "There is no server '{name}'");
    let installed = code == Some(0);
    if !installed {
        let required = std::env::var("PILLION_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "The packages of '{name}' are not installed");
        eprintln!("SKIPPED: the packages of '{name}' are not installed: scripts/setup test");
    }
    installed
}

fn script() -> PathBuf {
    crate::checkout().join("tests/peers/start")
}

/// Waits until nobody listens there: a server that was killed goes after the script that started
/// it, and on a busy machine a good while after.
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
        // It may have ended on its own.
        let _ = killpg(self.group(), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "There is no server 'no-such-server'")]
    fn a_name_that_does_not_exist_is_not_skipped() {
        let _ = Peer::start("no-such-server");
    }
}
