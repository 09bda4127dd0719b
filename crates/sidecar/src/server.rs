//! Serves the [`App`] of a [`CurrentApp`] on listeners until shutdown.

mod connection;
mod receive_tracker;
mod slow_client;
mod timer;
mod unauthenticated;
mod unread;

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::FutureExt;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::current_app::CurrentApp;
use connection::{Connection, ConnectionPermit};
use pillion_gateway::access::{Admission, ConnectionPermits, Peer};
use unauthenticated::UnauthenticatedConnections;
use unread::UnreadBytes;

/// Interval at which open connections are counted during a shutdown, while last requests may
/// arrive.
const COUNT_INTERVAL: Duration = Duration::from_millis(20);

/// Pause after a failed `accept`, which usually means that the process is out of file descriptors.
/// Retrying at once would only waste CPU time.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum TCP segment size, in bytes. Larger segments occur only on the loopback.
const MAX_SEGMENT_BYTES: u32 = 8 * 1024;

/// Maximum number of threads that serve connections. More threads would only compete with tool
/// processes for the CPUs.
const MAX_SERVING_THREADS: usize = 8;

/// Interval of a repeated timer, the tick, that avoids wake-ups. Setting a timer that ends before
/// all other timers of a runtime wakes the runtime, even from the runtime's own thread, and each
/// call sets two timers. Because the tick ends before the timers of calls, setting those timers
/// does not wake the runtime.
const TICK_INTERVAL: Duration = Duration::from_millis(500);

/// The number of times that the remaining tasks of a serving thread are polled before the thread
/// ends.
const FINAL_POLL_COUNT: usize = 16;

/// Maximum time to wait for the end of the serving threads.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The outcome of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownOutcome {
    /// Number of connections that were closed because they had not ended within the grace period.
    pub cut_off_connections: usize,
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

/// A TCP listener with the limits on its connections.
#[derive(Debug)]
pub struct TcpEndpoint {
    /// The listening TCP socket.
    pub listener: TcpListener,
    /// Maximum number of authenticated connections, and also the maximum number of unauthenticated
    /// connections.
    pub max_connections: usize,
    /// Maximum time that a connection may stay unauthenticated.
    pub authentication_timeout: Duration,
}

/// The reason why the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The process ends without a successor, so new connections are rejected.
    WithoutSuccessor,
    /// A successor process, or the service manager on its behalf, holds the sockets, so new
    /// connections wait instead of being rejected.
    WithSuccessor {
        /// The time for which a keep-alive connection may send one more request. The connection is
        /// closed after the response to this request. If the connection were closed at once, a
        /// request might already be on its way, which its client could not safely retry.
        last_request_timeout: Duration,
    },
}

/// Serves `app` on a Unix socket until `shutdown` resolves; then accepts no more connections, waits
/// for the calls in progress, and closes the remaining connections after `grace`.
///
/// # Errors
/// The system cannot create the threads that serve connections.
pub async fn run(
    listener: UnixListener,
    app: App,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<ShutdownOutcome> {
    let mut threads = ServingThreads::start()?;
    let listeners = Listeners {
        unix: listener,
        replacements: None,
        tcp: None,
    };
    let stop = async {
        shutdown.await;
        Stop::WithoutSuccessor
    };
    let current_app = CurrentApp::new(app);
    Ok(serve(listeners, &current_app, &mut threads, grace, stop).await)
}

/// Serves requests like [`run`], with several listeners, an [`App`] that reloads may replace, and a
/// reason for the shutdown.
pub async fn serve(
    listeners: Listeners,
    current_app: &CurrentApp,
    threads: &mut ServingThreads,
    grace: Duration,
    shutdown: impl Future<Output = Stop>,
) -> ShutdownOutcome {
    let shutdown_token = CancellationToken::new();
    let (mut unix, mut replacements) = (listeners.unix, listeners.replacements);
    let mut tcp = listeners.tcp.map(TcpAcceptor::new);
    let max_connections = current_app.app().http().max_connections.get();
    let unix_permits = Arc::new(Semaphore::new(max_connections));
    let mut connections = JoinSet::new();
    // Replaced sockets without a file, in whose queues clients may still wait.
    let mut replaced_listeners = Vec::new();
    let mut shutdown = pin!(shutdown);
    let stop = loop {
        tokio::select! {
            biased;
            stop = &mut shutdown => break stop,
            Some(_) = connections.join_next() => {}
            Some(listener) = receive_next(&mut replacements) => {
                replaced_listeners.push(std::mem::replace(&mut unix, listener));
            }
            (stream, peer, permit) = accept_unix(&unix, &mut replaced_listeners, &unix_permits) => {
                let connection = Connection { current_app: current_app.clone(), peer, shutdown_token: shutdown_token.clone() };
                connections.spawn_on(connection.serve::<UnixListener>(stream, permit), &threads.next_runtime());
            }
            (stream, peer, permit) = TcpAcceptor::accept(&mut tcp) => {
                let connection = Connection { current_app: current_app.clone(), peer, shutdown_token: shutdown_token.clone() };
                connections.spawn_on(connection.serve::<TcpListener>(stream, permit), &threads.next_runtime());
            }
        }
    };
    current_app.app().process().start_draining();
    drop((unix, replaced_listeners, tcp));
    current_app.app().mcp().state().stop();
    current_app.app().process().events.close();
    current_app.app().process().pending_decisions.close();
    if let Stop::WithSuccessor {
        last_request_timeout,
    } = stop
    {
        let last_requests_done = async {
            while !connections.is_empty() {
                while connections.try_join_next().is_some() {}
                tokio::time::sleep(COUNT_INTERVAL).await;
            }
        };
        drop(tokio::time::timeout(last_request_timeout.min(grace), last_requests_done).await);
    }
    let outcome = drain(&shutdown_token, connections, current_app, grace).await;
    current_app.app().disconnect().await;
    outcome
}

/// A TCP listener with the state that its connections share.
struct TcpAcceptor {
    listener: TcpListener,
    permits: Arc<ConnectionPermits>,
    registry: UnauthenticatedConnections,
    timeout: Duration,
}

impl TcpAcceptor {
    fn new(endpoint: TcpEndpoint) -> Self {
        let timeout = endpoint.authentication_timeout;
        let max_connections = endpoint.max_connections;
        limit_segments(&endpoint.listener);
        Self {
            listener: endpoint.listener,
            permits: ConnectionPermits::new(max_connections),
            registry: UnauthenticatedConnections::new(max_connections, timeout),
            timeout,
        }
    }

    /// Accepts the next connection. Never resolves if there is no listener.
    async fn accept(
        tcp: &mut Option<Self>,
    ) -> (<TcpListener as Listener>::RawStream, Peer, ConnectionPermit) {
        let Some(tcp) = tcp else {
            return std::future::pending().await;
        };
        let (stream, peer) = tcp.listener.accept_with_retry().await;
        let pending = tcp.registry.add(Admission::new(&tcp.permits, tcp.timeout));
        (stream, peer, ConnectionPermit::Pending(pending))
    }
}

/// Accepts the next connection when a permit is free, first from the queues of the replaced sockets
/// in `replaced_listeners`. A replaced socket with an empty queue is closed.
async fn accept_unix(
    listener: &UnixListener,
    replaced_listeners: &mut Vec<UnixListener>,
    permits: &Arc<Semaphore>,
) -> (
    <UnixListener as Listener>::RawStream,
    Peer,
    ConnectionPermit,
) {
    // Acquiring a permit never fails, because the semaphore is never closed.
    let permit = ConnectionPermit::Granted {
        _permit: Arc::clone(permits).acquire_owned().await.ok(),
    };
    while let Some(replaced_listener) = replaced_listeners.last() {
        match Listener::next(replaced_listener).now_or_never() {
            Some(Ok((stream, peer))) => return (stream, peer, permit),
            Some(Err(_)) | None => drop(replaced_listeners.pop()),
        }
    }
    let (stream, peer) = listener.accept_with_retry().await;
    (stream, peer, permit)
}

/// Receives the next message of a channel. Returns `None` if `channel` is `None` or the channel is
/// closed.
async fn receive_next<T>(channel: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match channel {
        Some(channel) => channel.recv().await,
        None => None,
    }
}

async fn drain(
    shutdown_token: &CancellationToken,
    mut connections: JoinSet<()>,
    current_app: &CurrentApp,
    grace: Duration,
) -> ShutdownOutcome {
    let process = Arc::clone(current_app.app().process());
    // All connected clients were notified of the shutdown, and disconnect after their last
    // responses.
    let clients = &process.client_tasks;
    clients.close();
    while connections.try_join_next().is_some() {}
    let open_connections = connections.len() + clients.len();
    tracing::info!(connections = open_connections, "Stopping");
    shutdown_token.cancel();
    let all_closed = async {
        while connections.join_next().await.is_some() {}
        clients.wait().await;
    };
    if tokio::time::timeout(grace, all_closed).await.is_ok() {
        return ShutdownOutcome {
            cut_off_connections: 0,
        };
    }
    while connections.try_join_next().is_some() {}
    let cut_off_connections = connections.len() + clients.len();
    tracing::warn!(
        connections = cut_off_connections,
        "The shutdown grace period is over; closing the remaining connections"
    );
    connections.shutdown().await;
    ShutdownOutcome {
        cut_off_connections,
    }
}

/// A source of connections.
trait Listener {
    /// A connection that is not registered with a runtime yet.
    type RawStream: Send + 'static;
    type Stream: AsyncRead + AsyncWrite + UnreadBytes + Send + Unpin + 'static;

    /// Returns the next connection and its peer.
    async fn next(&self) -> io::Result<(Self::RawStream, Peer)>;

    /// Registers the connection with the current runtime.
    fn adopt(raw_stream: Self::RawStream) -> io::Result<Self::Stream>;

    /// Returns the next connection like [`next`](Self::next), but retries after errors.
    async fn accept_with_retry(&self) -> (Self::RawStream, Peer) {
        loop {
            match self.next().await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
    }
}

/// Limits the TCP segment size of a listener's connections. A receiver with a full buffer announces
/// free space in units of segments, and the loopback's segments of 64 KiB would make a slow reader
/// look stalled for a long time.
fn limit_segments(listener: &TcpListener) {
    if let Err(error) = setsockopt(listener, sockopt::TcpMaxSeg, &MAX_SEGMENT_BYTES) {
        tracing::debug!(%error, "Cannot limit the TCP segment size");
    }
}

impl Listener for UnixListener {
    type RawStream = std::os::unix::net::UnixStream;
    type Stream = UnixStream;

    fn adopt(raw_stream: Self::RawStream) -> io::Result<UnixStream> {
        UnixStream::from_std(raw_stream)
    }

    async fn next(&self) -> io::Result<(Self::RawStream, Peer)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let process = stream.peer_cred()?;
        let peer = Peer::Process {
            uid: process.uid(),
            gid: process.gid(),
            pid: process.pid(),
        };
        Ok((stream.into_std()?, peer))
    }
}

impl Listener for TcpListener {
    type RawStream = std::net::TcpStream;
    type Stream = TcpStream;

    fn adopt(raw_stream: Self::RawStream) -> io::Result<TcpStream> {
        TcpStream::from_std(raw_stream)
    }

    async fn next(&self) -> io::Result<(Self::RawStream, Peer)> {
        let (stream, address) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream.into_std()?, Peer::Network { address }))
    }
}

/// Threads that serve connections, each with its own single-threaded runtime. A connection and all
/// its tasks stay on one thread.
///
/// A request is a chain of small steps. In a shared multi-threaded runtime, each step would wake
/// another thread to look for work, which for a call costs as much as all other work together.
#[derive(Debug)]
pub struct ServingThreads {
    threads: Vec<ServingThread>,
    next_index: usize,
}

#[derive(Debug)]
struct ServingThread {
    runtime: Handle,
    /// Dropping this sender ends the serving thread and all tasks that still run on the thread.
    _end_sender: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ServingThreads {
    /// Starts one serving thread per processor, but at most 8 threads.
    ///
    /// # Errors
    /// The system cannot create the threads.
    pub fn start() -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = (0..processors.min(MAX_SERVING_THREADS)).map(|number| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let (end_sender, end_receiver) = oneshot::channel::<()>();
            let thread = thread::Builder::new()
                .name(format!("pillion-serve-{number}"))
                .spawn(move || {
                    runtime.block_on(run_until_end(end_receiver));
                    runtime.shutdown_background();
                })?;
            Ok(ServingThread {
                runtime: handle,
                _end_sender: end_sender,
                thread,
            })
        });
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            next_index: 0,
        })
    }

    /// Ends the threads after polling their remaining tasks, which may record in the call log that
    /// a call was abandoned.
    pub async fn end(self) {
        let serving_threads = self.threads.into_iter();
        // Dropping the other fields of each thread, including the sender, makes the thread end.
        let threads: Vec<_> = serving_threads.map(|serving| serving.thread).collect();
        let join_all = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // A join error is ignored, because a thread that panicked has also ended.
                let _ = thread.join();
            }
        });
        if tokio::time::timeout(JOIN_TIMEOUT, join_all).await.is_err() {
            tracing::warn!("A server thread did not stop in time");
        }
    }

    /// Returns the runtime for the next connection, chosen round-robin.
    fn next_runtime(&mut self) -> Handle {
        self.next_index = (self.next_index + 1) % self.threads.len();
        self.threads[self.next_index].runtime.clone()
    }
}

async fn run_until_end(mut end_receiver: oneshot::Receiver<()>) {
    let mut tick_interval = interval(TICK_INTERVAL);
    tick_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Receiving fails if the sender was dropped, which ends the thread, too.
            _ = &mut end_receiver => break,
            _ = tick_interval.tick() => {}
        }
    }
    for _ in 0..FINAL_POLL_COUNT {
        tokio::task::yield_now().await;
    }
}
