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
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use pillion_core::tool::ErrorCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Listener;
use super::receive_tracker::{ReceiveTracker, TrackedBody};
use super::slow_client::SlowClientStream;
use super::timer::StopTolerantTimer;
use super::unauthenticated::PendingConnection;
use super::unread::UnreadBytes;
use crate::current_app::CurrentApp;
use crate::routes;
use pillion_gateway::access::{Admission, Peer};
use pillion_gateway::problem::Problem;
use pillion_gateway::waiting_bytes::ConnectionBytes;

/// Maximum time for the last response to a client that may no longer be connected.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time for sending the rejection to a process that no rule admits.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of rejections that are sent concurrently. Further rejected connections are closed
/// without a response. Rejected connections use no permits of admitted connections.
const MAX_REJECTIONS: usize = 16;

static REJECTION_PERMITS: Semaphore = Semaphore::const_new(MAX_REJECTIONS);

/// A connection, with the parts of the server's state that it uses.
pub struct Connection {
    pub(super) current_app: CurrentApp,
    pub(super) peer: Peer,
    /// A token whose cancellation ends the connection after its current request.
    pub(super) shutdown_token: CancellationToken,
}

/// The permit of a connection, which limits the number of connections.
pub(super) enum ConnectionPermit {
    Granted {
        _permit: Option<OwnedSemaphorePermit>,
    },
    /// The connection gets its permit with its first valid token.
    Pending(PendingConnection),
}

impl ConnectionPermit {
    fn admission(&self) -> Option<Arc<Admission>> {
        match self {
            Self::Granted { .. } => None,
            Self::Pending(pending) => Some(Arc::clone(pending.admission())),
        }
    }

    /// Resolves when the connection must be closed because it has not authenticated.
    async fn wait_for_dismissal(&self) {
        match self {
            Self::Granted { .. } => std::future::pending().await,
            Self::Pending(pending) => pending.wait_for_dismissal().await,
        }
    }
}

impl Connection {
    /// Serves the connection until it ends. The connection also ends when no socket rule admits its
    /// process anymore.
    pub(super) async fn serve<L: Listener>(
        self,
        raw_stream: L::RawStream,
        permit: ConnectionPermit,
    ) {
        let stream = match L::adopt(raw_stream) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "Cannot serve a connection");
                return;
            }
        };
        let app = self.current_app.app();
        let metrics = Arc::clone(app.metrics());
        let connection_metrics = metrics.connections(self.peer.transport());
        connection_metrics.count_opened();
        if let Peer::Process { uid, gid, pid } = self.peer
            && !app.access().peers.allows(uid, gid)
        {
            connection_metrics.count_rejected();
            tracing::warn!(
                uid,
                gid,
                pid,
                "Rejected a connection: the socket rules do not allow its process"
            );
            drop((app, permit));
            reject(stream, self.peer).await;
            connection_metrics.count_closed();
            return;
        }
        // Releases this `App`, because each request uses the `App` that is current when the request
        // arrives.
        drop(app);
        let peer = self.peer;
        self.serve_requests(stream, &permit).await;
        metrics.connections(peer.transport()).count_closed();
        drop(permit);
    }

    /// Serves requests until the connection ends.
    async fn serve_requests<S>(self, stream: S, permit: &ConnectionPermit)
    where
        S: AsyncRead + AsyncWrite + UnreadBytes + Send + Unpin + 'static,
    {
        let peer = self.peer;
        let app = self.current_app.app();
        let limits = app.http();
        let max_waiting_bytes = limits.max_waiting_bytes.get() as u64;
        let waiting_bytes = app
            .process()
            .waiting_bytes
            .add_connection(max_waiting_bytes);
        let was_cut_off = Arc::new(AtomicBool::new(false));
        let receive_tracker = ReceiveTracker::default();
        let slow_client_stream = SlowClientStream::new(
            stream,
            limits.write_timeout,
            Arc::clone(&was_cut_off),
            waiting_bytes.clone(),
            receive_tracker.clone(),
        );
        let requests = ConnectionService {
            current_app: self.current_app.clone(),
            peer,
            admission: permit.admission(),
            receive_tracker,
            waiting_bytes,
            max_header_bytes: limits.max_header_bytes,
        };
        let http_connection = http1::Builder::new()
            .timer(StopTolerantTimer)
            // The timeout for reading a header also applies while a connection is idle.
            .header_read_timeout(limits.idle_timeout)
            .max_headers(limits.max_headers.get())
            .max_buf_size(limits.max_header_bytes)
            .serve_connection(TokioIo::new(slow_client_stream), requests)
            .with_upgrades();
        let mut peer_watch = app.process().watch_admission(Some(peer));
        let metrics = Arc::clone(app.metrics());
        drop(app);
        let connection_metrics = metrics.connections(peer.transport());
        let mut connection = pin!(http_connection);
        let outcome = tokio::select! {
            // The connection is polled first, so that a request that has already arrived is read
            // before a timeout ends the connection.
            biased;
            outcome = connection.as_mut() => outcome,
            () = self.shutdown_token.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = peer_watch.wait_until_revoked() => {
                connection.as_mut().graceful_shutdown();
                // A stream may never end by itself, so the connection is closed after a timeout.
                timeout(LAST_RESPONSE_TIMEOUT, connection).await.unwrap_or(Ok(()))
            }
            () = permit.wait_for_dismissal() => {
                connection_metrics.count_rejected();
                tracing::debug!(
                    ?peer,
                    "Closed an unauthenticated TCP connection: the time limit has expired, or a \
                    newer connection needed the slot"
                );
                return;
            }
        };
        if was_cut_off.load(Ordering::Relaxed) {
            connection_metrics.count_cut_off();
            tracing::warn!(
                ?peer,
                "Closed a connection: the client stopped reading the response"
            );
        } else if let Err(error) = outcome {
            // The log level is debug, because the client causes such an error: it disconnected,
            // sent nothing for too long, or did not speak HTTP.
            tracing::debug!(%error, "A connection ended with an error");
        }
    }
}

/// Rejects the first request of a process that no rule admits, if the request arrives in time.
async fn reject(stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
    let Ok(_permit) = REJECTION_PERMITS.try_acquire() else {
        return;
    };
    let service =
        service_fn(|_: Request<Incoming>| ready(Ok::<_, Infallible>(rejection_response(peer))));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(REJECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "A rejected connection ended with an error"),
        Err(_) => tracing::debug!("A rejected process sent no request"),
    }
}

/// Serves the requests of one connection, each with the `App` that is current when the request
/// arrives.
#[derive(Clone)]
struct ConnectionService {
    current_app: CurrentApp,
    peer: Peer,
    admission: Option<Arc<Admission>>,
    receive_tracker: ReceiveTracker,
    waiting_bytes: ConnectionBytes,
    max_header_bytes: usize,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let admission = self.admission.clone();
        let receive_tracker = self.receive_tracker.clone();
        let waiting_bytes = self.waiting_bytes.clone();
        let mut request = request.map(|body| Body::new(TrackedBody::new(body, &receive_tracker)));
        waiting_bytes.begin_request();
        if head_bytes(&request) > self.max_header_bytes {
            // The size of the head is checked here as well, because hyper rejects a head of this
            // size only if the head arrives in parts.
            return Box::pin(ready(Ok(head_too_large_response())));
        }
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(waiting_bytes.clone());
        if let Some(admission) = &admission {
            admission.set_checking(true);
            request.extensions_mut().insert(Arc::clone(admission));
        }
        let current_app = self.current_app.clone();
        request.extensions_mut().insert(current_app.clone());
        let method = request.method().clone();
        let response_future =
            TowerToHyperService::new(current_app.router(routes::router)).call(request);
        Box::pin(async move {
            let mut response = response_future.await?;
            let mut is_last = current_app.app().process().is_draining();
            if let Some(admission) = &admission {
                admission.set_checking(false);
                // A connection that has not authenticated is not kept alive.
                is_last |= !admission.is_admitted();
            }
            // The rest of an unread body may still arrive, so the connection cannot serve another
            // request. An upgraded connection serves no further request anyway.
            is_last |= receive_tracker.has_unread()
                && response.status() != StatusCode::SWITCHING_PROTOCOLS;
            if is_last {
                set_connection_close(&mut response);
            }
            Ok(waiting_bytes.admit(&method, response).await)
        })
    }
}

/// Returns the approximate size of a request's head, in bytes.
fn head_bytes(request: &Request<Body>) -> usize {
    let header_bytes: usize = request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    let uri = request.uri();
    let target = uri
        .path_and_query()
        .map_or(1, |target| target.as_str().len());
    let authority = uri
        .authority()
        .map_or(0, |authority| authority.as_str().len());
    let method = request.method().as_str().len();
    method + target + authority + "  HTTP/1.1\r\n\r\n".len() + header_bytes
}

fn head_too_large_response() -> Response {
    let mut response = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response();
    set_connection_close(&mut response);
    response
}

/// Returns the response to a process that no rule admits. The response may reveal that a sidecar is
/// running, because the process could open the socket.
fn rejection_response(peer: Peer) -> Response {
    let subject = match peer {
        Peer::Process { uid, gid, .. } => format!("user {uid} of group {gid}"),
        Peer::Network { .. } => "this user".to_owned(),
    };
    let problem = Problem::new(
        StatusCode::FORBIDDEN,
        ErrorCode::Denied,
        format!(
            "Permission denied: no rule of socket.allow_uids, allow_gids, allow_users or \
             allow_groups allows {subject}"
        ),
    );
    let mut response = problem.into_response();
    set_connection_close(&mut response);
    response
}

/// Adds `Connection: close`, so that the client sends its next request on another connection.
fn set_connection_close(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}
