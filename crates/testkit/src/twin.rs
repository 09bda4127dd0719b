use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use tokio::net::TcpListener;

/// This same program once more, in a process of its own, as a server for a benchmark: neither its work nor
/// its memory counts as that of what is measured. It is killed when this is dropped.
#[derive(Debug)]
pub struct Twin {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Twin {
    /// Starts it with this argument, and waits until it [listens](Self::listen).
    ///
    /// # Errors
    /// It cannot be started, or ends before it listens.
    pub fn start(argument: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(argument)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take();
        // From here on it is killed whatever happens.
        let mut twin = Self { child, port: 0 };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        twin.port = line.trim().parse().map_err(io::Error::other)?;
        Ok(twin)
    }

    /// Whether this process is the one that was started with this argument.
    #[must_use]
    pub fn is_me(argument: &str) -> bool {
        std::env::args().skip(1).any(|it| it == argument)
    }

    /// In that process: listens on a free port, and tells the one that waits for it.
    ///
    /// # Errors
    /// There is no free port, or nobody to tell.
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
