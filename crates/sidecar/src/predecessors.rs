//! The processes before this one that still end calls on its sockets (`--take-over`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::UnixStream;

/// As many as a restart in each second may leave behind.
const MOST: usize = 60;

/// How long a process that ends may take to let go of what it has.
const CLOSING: Duration = Duration::from_millis(100);

/// One of them.
#[derive(Debug)]
pub(crate) struct Predecessor {
    /// As the call log knows it.
    pub(crate) life: String,
    /// A connection whose other end that process holds until its own.
    pub(crate) line: Option<OwnedFd>,
}

/// All of them. Cheap to clone; clones know the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Predecessors(Arc<Mutex<Vec<Predecessor>>>);

impl Predecessors {
    pub(crate) fn new(all: Vec<Predecessor>) -> Self {
        Self(Arc::new(Mutex::new(all)))
    }

    pub(crate) fn lives(&self) -> Vec<String> {
        self.0.lock().iter().map(|one| one.life.clone()).collect()
    }

    pub(crate) fn contains(&self, life: &str) -> bool {
        self.0.lock().iter().any(|one| one.life == life)
    }

    /// Those for a successor to know, the youngest last.
    pub(crate) fn copied(&self) -> io::Result<Vec<Predecessor>> {
        let all = self.0.lock();
        let young = all.iter().skip(all.len().saturating_sub(MOST));
        let copied = young.map(|one| {
            let line = one.line.as_ref();
            Ok(Predecessor {
                life: one.life.clone(),
                line: line.map(OwnedFd::try_clone).transpose()?,
            })
        });
        copied.collect()
    }

    /// Waits for each to end, forgets it, and says so. Must be called when they have said
    /// everything that they say.
    pub(crate) fn watch<F>(&self, has_ended: impl Fn() -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let copied = self.copied().unwrap_or_default();
        for Predecessor { life, line } in copied {
            let Some(line) = line else {
                // It says nothing of its end.
                continue;
            };
            let (this, has_ended) = (self.clone(), has_ended.clone());
            tokio::spawn(async move {
                if let Err(error) = end_of(line).await {
                    tracing::warn!(%error, "It is not known when the sidecar before ends");
                    return;
                }
                tracing::info!(life, "The sidecar before has ended");
                // It closes everything that it had open, in whatever order.
                tokio::time::sleep(CLOSING).await;
                this.0.lock().retain(|one| one.life != life);
                has_ended().await;
            });
        }
    }
}

/// Resolves when the other end is closed.
async fn end_of(line: OwnedFd) -> io::Result<()> {
    let stream = StdStream::from(line);
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; 64]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // It is as good as an end.
            Err(_) => return Ok(()),
        }
    }
}

/// A descriptor of the same connection.
pub(crate) fn line_of(stream: &UnixStream) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}
