//! Serves the [`App`] of a [`CurrentApp`] on listeners until shutdown.

mod connection;
mod listener;
mod receive_tracker;
mod serving_threads;
mod slow_client;
mod timer;
mod unread;
mod waiting_room;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::current_app::CurrentApp;
use connection::{Connection, ConnectionPermit};
use listener::Listener;
use pillion_gateway::access::{Admission, ConnectionPermits, Peer};
pub use serving_threads::ServingThreads;
use waiting_room::UnauthenticatedConnections;

/// Interval at which open connections are counted during a shutdown, while last requests may
/// arrive.
const COUNT_INTERVAL: Duration = Duration::from_millis(20);

/// The outcome of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Number of connections that were closed because they had not ended within the grace period.
    pub cut_off: usize,
}

/// The listeners of a server.
#[derive(Debug)]
pub struct Listeners {
    /// The Unix socket.
    pub unix: UnixListener,
    /// Listeners that replace `unix` after its file was removed.
    pub replacements: Option<mpsc::Receiver<UnixListener>>,
    /// The TCP listener, if configured.
    pub tcp: Option<TcpEndpoint>,
}

/// A TCP listener with its limits for connections without a valid token.
#[derive(Debug)]
pub struct TcpEndpoint {
    /// The listening TCP socket.
    pub listener: TcpListener,
    /// Maximum number of authenticated connections; the same number of unauthenticated connections
    /// may be open.
    pub max_connections: usize,
    /// Maximum time that a connection may stay unauthenticated.
    pub authentication_timeout: Duration,
}

/// Why the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The process ends and has no successor.
    Ending,
    /// A successor process, or the service manager on its behalf, holds the sockets, so no client
    /// is rejected in the meantime.
    Continued {
        /// How long keep-alive connections may send one more request, after whose response the
        /// connection is closed. If the connection were closed at once, a request might already be
        /// on its way, which its client could not safely retry.
        last_requests: Duration,
    },
}

/// Serves `app` on a Unix socket until `shutdown` resolves; then accepts no more connections, waits
/// for the calls in progress, and closes the remaining connections after `grace`.
///
/// # Errors
/// If the system cannot create the threads that serve connections.
pub async fn run(
    listener: UnixListener,
    app: App,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<Drained> {
    let mut threads = ServingThreads::start()?;
    let listeners = Listeners {
        unix: listener,
        replacements: None,
        tcp: None,
    };
    let ending = async {
        shutdown.await;
        Stop::Ending
    };
    let current_app = CurrentApp::new(app);
    Ok(serve(listeners, &current_app, &mut threads, grace, ending).await)
}

/// Like [`run`], with several listeners, an [`App`] that reloads may replace, and a reason for the
/// shutdown.
pub async fn serve(
    listeners: Listeners,
    current_app: &CurrentApp,
    threads: &mut ServingThreads,
    grace: Duration,
    shutdown: impl Future<Output = Stop>,
) -> Drained {
    let ending = CancellationToken::new();
    let (mut unix, mut replacements) = (listeners.unix, listeners.replacements);
    let mut tcp = listeners.tcp.map(Tcp::new);
    let max_connections = current_app.app().http().max_connections.get();
    let unix_permits = Arc::new(Semaphore::new(max_connections));
    let mut connections = JoinSet::new();
    // Replaced sockets without a file, in whose queues clients may still wait.
    let mut waiting_elsewhere = Vec::new();
    let mut shutdown = pin!(shutdown);
    let stop = loop {
        tokio::select! {
            biased;
            stop = &mut shutdown => break stop,
            Some(_) = connections.join_next() => {}
            Some(listener) = next_of(&mut replacements) => {
                waiting_elsewhere.push(std::mem::replace(&mut unix, listener));
            }
            (stream, peer, permit) = accept_unix(&unix, &mut waiting_elsewhere, &unix_permits) => {
                let connection = Connection { current_app: current_app.clone(), peer, ending: ending.clone() };
                connections.spawn_on(connection.serve::<UnixListener>(stream, permit), &threads.next());
            }
            (stream, peer, permit) = Tcp::accept(&mut tcp) => {
                let connection = Connection { current_app: current_app.clone(), peer, ending: ending.clone() };
                connections.spawn_on(connection.serve::<TcpListener>(stream, permit), &threads.next());
            }
        }
    };
    current_app.app().process().start_draining();
    drop((unix, waiting_elsewhere, tcp));
    current_app.app().mcp().state().stop();
    current_app.app().process().events.close();
    current_app.app().process().pending.close();
    if let Stop::Continued { last_requests } = stop {
        let done = async {
            while !connections.is_empty() {
                while connections.try_join_next().is_some() {}
                tokio::time::sleep(COUNT_INTERVAL).await;
            }
        };
        drop(tokio::time::timeout(last_requests.min(grace), done).await);
    }
    let drained = drain(&ending, connections, current_app, grace).await;
    current_app.app().disconnect().await;
    drained
}

/// A TCP listener with the state that its connections share.
struct Tcp {
    listener: TcpListener,
    permits: Arc<ConnectionPermits>,
    room: UnauthenticatedConnections,
    timeout: Duration,
}

impl Tcp {
    fn new(endpoint: TcpEndpoint) -> Self {
        let timeout = endpoint.authentication_timeout;
        let max_connections = endpoint.max_connections;
        listener::limit_segments(&endpoint.listener);
        Self {
            listener: endpoint.listener,
            permits: ConnectionPermits::new(max_connections),
            room: UnauthenticatedConnections::new(max_connections, timeout),
            timeout,
        }
    }

    /// Accepts the next connection. Never resolves if there is no listener.
    async fn accept(
        tcp: &mut Option<Self>,
    ) -> (<TcpListener as Listener>::Accepted, Peer, ConnectionPermit) {
        let Some(tcp) = tcp else {
            return std::future::pending().await;
        };
        let (stream, peer) = tcp.listener.accept_with_retry().await;
        let pending = tcp.room.enter(Admission::new(&tcp.permits, tcp.timeout));
        (stream, peer, ConnectionPermit::Pending(pending))
    }
}

/// Accepts the next connection when a permit is free, first from the queues of the replaced sockets
/// `before`. A replaced socket with an empty queue is closed.
async fn accept_unix(
    listener: &UnixListener,
    before: &mut Vec<UnixListener>,
    permits: &Arc<Semaphore>,
) -> (<UnixListener as Listener>::Accepted, Peer, ConnectionPermit) {
    // The semaphore is never closed, so a permit becomes free eventually.
    let permit = ConnectionPermit::Granted {
        _permit: Arc::clone(permits).acquire_owned().await.ok(),
    };
    while let Some(old) = before.last() {
        match Listener::next(old).now_or_never() {
            Some(Ok((stream, peer))) => return (stream, peer, permit),
            Some(Err(_)) | None => drop(before.pop()),
        }
    }
    let (stream, peer) = listener.accept_with_retry().await;
    (stream, peer, permit)
}

/// Receives the next message; returns `None` if there is no channel or the channel is closed.
async fn next_of<T>(channel: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match channel {
        Some(channel) => channel.recv().await,
        None => None,
    }
}

async fn drain(
    ending: &CancellationToken,
    mut connections: JoinSet<()>,
    current_app: &CurrentApp,
    grace: Duration,
) -> Drained {
    let process = Arc::clone(current_app.app().process());
    // All clients were notified of the shutdown, and disconnect after their last responses.
    let clients = &process.clients;
    clients.close();
    while connections.try_join_next().is_some() {}
    let open = connections.len() + clients.len();
    tracing::info!(connections = open, "Stopping");
    ending.cancel();
    let all = async {
        while connections.join_next().await.is_some() {}
        clients.wait().await;
    };
    if tokio::time::timeout(grace, all).await.is_ok() {
        return Drained { cut_off: 0 };
    }
    while connections.try_join_next().is_some() {}
    let cut_off = connections.len() + clients.len();
    tracing::warn!(
        connections = cut_off,
        "The shutdown grace period is over; closing the remaining connections"
    );
    connections.shutdown().await;
    Drained { cut_off }
}
