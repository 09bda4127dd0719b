//! Serves the state of a [`Live`] on listeners until told to stop.

mod connection;
mod lanes;
mod listener;
mod patient;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::Peer;
use crate::app::App;
use crate::live::Live;
use crate::routes;
pub use lanes::Lanes;
use listener::Listener;

/// How often connections are counted while the last requests may come.
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// How the end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut off because they had not ended within the grace time.
    pub cut_off: usize,
}

/// Where requests come from.
#[derive(Debug)]
pub struct Listeners {
    /// The Unix socket.
    pub unix: UnixListener,
    /// TCP, where it is configured, and how many of its connections are served at once.
    pub tcp: Option<(TcpListener, usize)>,
}

/// Why serving ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Nobody serves the sockets after us.
    Ending,
    /// Somebody else has the sockets: a successor, or the service manager that keeps them
    /// for one. Nobody is refused meanwhile.
    Continued {
        /// How long connections that are kept alive may send another request, which is
        /// answered and is then the connection's last. One that is closed at once might have
        /// a request under way, which its client must not send again.
        last_requests: Duration,
    },
}

/// Serves `app` on a Unix socket until `shutdown` resolves; then takes no more connections,
/// lets the calls in flight end, and cuts off what is left after `grace`.
///
/// # Errors
/// When the system gives us no threads.
pub async fn run(
    listener: UnixListener,
    app: App,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<Drained> {
    let mut lanes = Lanes::start()?;
    let listeners = Listeners {
        unix: listener,
        tcp: None,
    };
    let ending = async {
        shutdown.await;
        Stop::Ending
    };
    let live = Live::new(app, routes::router);
    Ok(serve(listeners, &live, &mut lanes, grace, ending).await)
}

/// As [`run`], on several listeners, with a state that may change, and with a reason for
/// the end.
pub async fn serve(
    listeners: Listeners,
    live: &Live,
    lanes: &mut Lanes,
    grace: Duration,
    shutdown: impl Future<Output = Stop>,
) -> Drained {
    let ending = CancellationToken::new();
    let Listeners { unix, tcp } = listeners;
    let (tcp, most_tcp) = tcp.unzip();
    let unix_places = Arc::new(Semaphore::new(live.app().http().max_connections.get()));
    let tcp_places = Arc::new(Semaphore::new(most_tcp.unwrap_or_default()));
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let stop = loop {
        tokio::select! {
            biased;
            stop = &mut shutdown => break stop,
            Some(_) = connections.join_next() => {}
            (stream, peer, place) = accept(Some(&unix), &unix_places) => {
                let (ending, lane) = (ending.clone(), lanes.next());
                let served = connection::serve::<UnixListener>(stream, peer, live.clone(), place, ending);
                connections.spawn_on(served, &lane);
            }
            (stream, peer, place) = accept(tcp.as_ref(), &tcp_places) => {
                let (ending, lane) = (ending.clone(), lanes.next());
                let served = connection::serve::<TcpListener>(stream, peer, live.clone(), place, ending);
                connections.spawn_on(served, &lane);
            }
        }
    };
    live.app().process().start_draining();
    drop((unix, tcp));
    live.app().mcp().stop();
    live.app().process().events.close();
    live.app().process().desk.close();
    if let Stop::Continued { last_requests } = stop {
        let done = async {
            while !connections.is_empty() {
                while connections.try_join_next().is_some() {}
                tokio::time::sleep(COUNT_EVERY).await;
            }
        };
        drop(tokio::time::timeout(last_requests.min(grace), done).await);
    }
    let drained = drain(&ending, connections, live, grace).await;
    live.app().disconnect().await;
    drained
}

/// The next connection, and its place among those that may be open. Without a listener there
/// is never one.
async fn accept<L: Listener>(
    listener: Option<&L>,
    places: &Arc<Semaphore>,
) -> (L::Accepted, Peer, Option<OwnedSemaphorePermit>) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    // Nobody closes the semaphore, so there is always a permit in the end.
    let place = Arc::clone(places).acquire_owned().await.ok();
    let (stream, peer) = listener.accept().await;
    (stream, peer, place)
}

async fn drain(
    ending: &CancellationToken,
    mut connections: JoinSet<()>,
    live: &Live,
    grace: Duration,
) -> Drained {
    let process = Arc::clone(live.app().process());
    // Each knows by now, and leaves when it has what it asked for.
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
        "The grace time is over; cutting off what is still running"
    );
    connections.shutdown().await;
    Drained { cut_off }
}
