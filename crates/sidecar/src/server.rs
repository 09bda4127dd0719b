//! Serves an [`App`] on a listener until told to stop.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::app::App;
use crate::routes;

/// How long to wait after an `accept` that failed, which means that the process is out of
/// descriptors: trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How the end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut off because they had not ended within the grace time.
    pub cut_off: usize,
}

/// Serves until `shutdown` resolves; then takes no more connections, lets the calls in
/// flight end, and cuts off what is left after `grace`.
pub async fn run(
    listener: UnixListener,
    app: App,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(app.http().max_connections.get()));
    let acceptor = Acceptor {
        service: TowerToHyperService::new(routes::router(app.clone())),
        app,
    };
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            (stream, place) = accept(&listener, &places) => {
                connections.spawn(acceptor.serve(stream, place, graceful.watcher()));
            }
        }
    }
    drop(listener);
    acceptor.app.mcp().stop();
    let drained = drain(graceful, connections, grace).await;
    acceptor.app.disconnect().await;
    drained
}

/// The next connection, and its place among those that may be open.
async fn accept(
    listener: &UnixListener,
    places: &Arc<Semaphore>,
) -> (UnixStream, Option<OwnedSemaphorePermit>) {
    // Nobody closes the semaphore, so there is always a permit in the end.
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::warn!(%error, "Cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Acceptor {
    service: TowerToHyperService<axum::Router>,
    app: App,
}

impl Acceptor {
    /// The future that serves one connection to its end.
    fn serve(
        &self,
        stream: UnixStream,
        place: Option<OwnedSemaphorePermit>,
        watcher: Watcher,
    ) -> impl Future<Output = ()> + Send + 'static {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // Runs while a connection is idle, too.
            .header_read_timeout(self.app.http().idle_timeout)
            .serve_connection(TokioIo::new(stream), self.service.clone());
        let connection = watcher.watch(connection);
        async move {
            if let Err(error) = connection.await {
                // The peer went away, was silent too long or did not speak HTTP.
                tracing::debug!(%error, "A connection ended early");
            }
            drop(place);
        }
    }
}

async fn drain(
    graceful: GracefulShutdown,
    mut connections: JoinSet<()>,
    grace: Duration,
) -> Drained {
    while connections.try_join_next().is_some() {}
    tracing::info!(connections = connections.len(), "Stopping");
    if tokio::time::timeout(grace, graceful.shutdown())
        .await
        .is_ok()
    {
        return Drained { cut_off: 0 };
    }
    while connections.try_join_next().is_some() {}
    let cut_off = connections.len();
    tracing::warn!(
        connections = cut_off,
        "The grace time is over; cutting off what is still running"
    );
    connections.shutdown().await;
    Drained { cut_off }
}
