use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Postgres, url};

/// The name of Postgres's socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// A relay to a [`Postgres`] server that can stop forwarding, like a broken network: connections
/// stay open, but no data arrives. Requires a tokio runtime, and stops when this value is dropped.
#[derive(Debug)]
pub struct PostgresRelay {
    directory: TempDir,
    is_silent: watch::Sender<bool>,
    /// The number of messages from clients that are still forwarded.
    left: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl PostgresRelay {
    /// Starts a relay to a Postgres server.
    ///
    /// # Panics
    /// If the relay cannot be created.
    #[must_use]
    pub fn to(postgres: &Postgres) -> Self {
        let directory = TempDir::with_prefix("pillion-relay-").unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let (is_silent, _) = watch::channel(false);
        let server = postgres.directory.path().join(SOCKET);
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let task = tokio::spawn(accept(
            listener,
            server,
            is_silent.clone(),
            Arc::clone(&left),
        ));
        Self {
            directory,
            is_silent,
            left,
            task,
        }
    }

    /// Returns the URL of a database of the server, through the relay.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        url(self.directory.path(), database)
    }

    /// Stops forwarding; existing and new connections never receive data again.
    pub fn go_silent(&self) {
        self.is_silent.send_replace(true);
    }

    /// Forwards this number of messages from clients, then stops forwarding.
    pub fn go_silent_after(&self, messages: usize) {
        self.left.store(messages, Ordering::SeqCst);
    }

    /// Returns whether the relay has stopped forwarding.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        *self.is_silent.borrow()
    }

    /// Forwards new connections again.
    pub fn resume(&self) {
        self.left.store(usize::MAX, Ordering::SeqCst);
        self.is_silent.send_replace(false);
    }
}

impl Drop for PostgresRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: UnixListener,
    server: PathBuf,
    is_silent: watch::Sender<bool>,
    left: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (is_silent, left) = (is_silent.clone(), Arc::clone(&left));
        connections.spawn(relay(client, server.clone(), is_silent, left));
    }
}

async fn relay(
    mut client: UnixStream,
    server: PathBuf,
    is_silent: watch::Sender<bool>,
    left: Arc<AtomicUsize>,
) {
    let mut silence = is_silent.subscribe();
    tokio::select! {
        biased;
        _ = silence.wait_for(|is_silent| *is_silent) => {}
        () = forward(&mut client, server, &is_silent, &left) => return,
    }
    // Keeps the connection open, and discards what the client sends, until the client closes it.
    let mut discarded = vec![0; 64 * 1024];
    while client
        .read(&mut discarded)
        .await
        .is_ok_and(|length| length > 0)
    {}
}

async fn forward(
    client: &mut UnixStream,
    server: PathBuf,
    is_silent: &watch::Sender<bool>,
    left: &AtomicUsize,
) {
    let mut server = UnixStream::connect(server).await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = async {
        let mut message = vec![0; 64 * 1024];
        loop {
            let length = from_client.read(&mut message).await?;
            if length == 0 {
                return Ok::<_, io::Error>(());
            }
            let one_less = |left: usize| left.checked_sub(1);
            let counted = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            if counted.is_err() {
                is_silent.send_replace(true);
                std::future::pending::<()>().await;
            }
            to_server.write_all(&message[..length]).await?;
        }
    };
    // The relay ends when either side closes its connection.
    tokio::select! {
        _ = requests => {}
        _ = copy(&mut from_server, &mut to_client) => {}
    }
}
