use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use pillion_core::tool::ErrorCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::listener::Listener;
use super::patient::Patient;
use crate::access::Peer;
use crate::live::Live;
use crate::problem::Problem;

/// How long the last answer may take to somebody who may not be here any more.
const LAST_ANSWER: Duration = Duration::from_secs(30);

/// How long a process that no rule lets in may take to hear that.
const REFUSAL: Duration = Duration::from_secs(2);

/// How many of those are told at once; beyond, they find their connection closed. They have no
/// place among those that are let in.
const MOST_REFUSALS: usize = 16;

static REFUSALS: Semaphore = Semaphore::const_new(MOST_REFUSALS);

/// Serves one connection to its end; once `ending` is cancelled, to the end of the request
/// that it has. So it is when no rule lets its process in any more.
pub(super) async fn serve<L: Listener>(
    accepted: L::Accepted,
    peer: Peer,
    live: Live,
    place: Option<OwnedSemaphorePermit>,
    ending: CancellationToken,
) {
    let stream = match L::adopt(accepted) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "Cannot serve a connection");
            return;
        }
    };
    let app = live.app();
    let limits = app.http();
    let metrics = Arc::clone(app.metrics());
    let connections = metrics.connections(peer.transport());
    connections.opened();
    if let Peer::Process { uid, gid, pid } = peer
        && !app.access().peers.allow(uid, gid)
    {
        connections.refused();
        tracing::warn!(uid, gid, pid, "Refused a process that no rule lets in");
        drop((app, place));
        refuse(stream, peer).await;
        metrics.connections(peer.transport()).closed();
        return;
    }
    let was_cut_off = Arc::new(AtomicBool::new(false));
    let stream = Patient::new(stream, limits.write_timeout, Arc::clone(&was_cut_off));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Runs while a connection is idle, too.
        .header_read_timeout(limits.idle_timeout)
        .max_headers(limits.max_headers.get())
        .max_buf_size(limits.max_header_bytes)
        .serve_connection(TokioIo::new(stream), Requests { live, peer })
        .with_upgrades();
    let mut welcome = app.process().watch(Some(peer));
    // The state that the connection began with is not its requests'.
    drop(app);
    let mut connection = pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = welcome.ended() => {
            connection.as_mut().graceful_shutdown();
            // A stream would go on for ever.
            timeout(LAST_ANSWER, connection).await.unwrap_or(Ok(()))
        }
    };
    let connections = metrics.connections(peer.transport());
    connections.closed();
    if was_cut_off.load(Ordering::Relaxed) {
        connections.cut_off();
        tracing::warn!(?peer, "Cut off a connection whose reader does not read");
    } else if let Err(error) = outcome {
        // The peer went away, was silent too long or did not speak HTTP.
        tracing::debug!(%error, "A connection ended early");
    }
    drop(place);
}

/// Answers the first request of a process that no rule lets in, if it comes at once.
async fn refuse(stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
    let Ok(_told) = REFUSALS.try_acquire() else {
        return;
    };
    let refusal = service_fn(move |_: Request<Incoming>| ready(Ok::<_, Infallible>(refusal(peer))));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), refusal);
    match timeout(REFUSAL, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "A refused connection ended early"),
        Err(_) => tracing::debug!("A refused process asked for nothing"),
    }
}

/// The requests of one connection: each is served with the state of its moment.
#[derive(Clone)]
struct Requests {
    live: Live,
    peer: Peer,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        let live = self.live.clone();
        let answer = TowerToHyperService::new(live.router()).call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            if live.app().process().is_draining() {
                close(&mut response);
            }
            Ok(response)
        })
    }
}

/// What a process hears that no rule lets in. It may know that there is a sidecar: it could
/// open its socket.
fn refusal(peer: Peer) -> Response {
    let who = match peer {
        Peer::Process { uid, gid, .. } => format!("user {uid} of group {gid}"),
        Peer::Network { .. } => "this user".to_owned(),
    };
    let problem = Problem::new(
        StatusCode::FORBIDDEN,
        ErrorCode::Denied,
        format!(
            "Permission denied: no rule of socket.allow_uids, allow_gids, allow_users or \
             allow_groups lets {who} in"
        ),
    );
    let mut response = problem.into_response();
    close(&mut response);
    response
}

/// The client is to take its next request elsewhere.
fn close(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}
