use std::path::PathBuf;

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Postgres, url};

/// The name of the socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// A relay to a [`Postgres`] server that can stop forwarding, like a network that was cut:
/// connections stay open, but no data arrives. Requires a tokio runtime, and stops when it is
/// dropped.
#[derive(Debug)]
pub struct PostgresRelay {
    directory: TempDir,
    is_silent: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl PostgresRelay {
    /// Starts a relay to this server.
    ///
    /// # Panics
    /// If the relay cannot be created.
    #[must_use]
    pub fn to(postgres: &Postgres) -> Self {
        let directory = TempDir::with_prefix("pillion-relay-").unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let (is_silent, _) = watch::channel(false);
        let server = postgres.directory.path().join(SOCKET);
        let task = tokio::spawn(accept(listener, server, is_silent.clone()));
        Self {
            directory,
            is_silent,
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

    /// Forwards new connections again.
    pub fn answer_again(&self) {
        self.is_silent.send_replace(false);
    }
}

impl Drop for PostgresRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: UnixListener, server: PathBuf, is_silent: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let is_silent = is_silent.subscribe();
        connections.spawn(relay(client, server.clone(), is_silent));
    }
}

async fn relay(mut client: UnixStream, server: PathBuf, mut is_silent: watch::Receiver<bool>) {
    let forward = async {
        let mut server = UnixStream::connect(server).await.unwrap();
        // Either side may close the connection.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    };
    tokio::pin!(forward);
    tokio::select! {
        biased;
        _ = is_silent.wait_for(|is_silent| *is_silent) => {}
        () = &mut forward => return,
    }
    // Keeps both connections open.
    std::future::pending::<()>().await;
}
