use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use tokio::net::TcpListener;

/// A copy of this program in another process, as the server of a benchmark, so that the server's
/// work and memory are not measured. The process is killed when this value is dropped.
#[derive(Debug)]
pub struct Twin {
    child: Child,
    /// The server's port on 127.0.0.1.
    pub port: u16,
}

impl Twin {
    /// Starts a copy of this program with this argument, and waits until it
    /// [listens](Self::listen).
    ///
    /// # Errors
    /// The process cannot be started, or ends before it listens.
    pub fn start(argument: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(argument)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take();
        // From here on, dropping `twin` kills the process.
        let mut twin = Self { child, port: 0 };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        twin.port = line.trim().parse().map_err(io::Error::other)?;
        Ok(twin)
    }

    /// Returns whether this process was started with this argument.
    #[must_use]
    pub fn is_me(argument: &str) -> bool {
        std::env::args().skip(1).any(|it| it == argument)
    }

    /// Listens on a free port, in the started process, and reports the port to the process that
    /// started it.
    ///
    /// # Errors
    /// There is no free port, or the process that waits for the report has ended.
    pub async fn listen() -> io::Result<TcpListener> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut stdout = io::stdout();
        writeln!(stdout, "{}", listener.local_addr()?.port())?;
        stdout.flush()?;
        Ok(listener)
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
