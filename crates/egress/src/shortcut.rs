//! A minimal HTTP/1.1 client for servers on this machine.
//!
//! The features of a full HTTP client (proxies, redirects, certificates, protocol versions, a task
//! per connection) take longer than the response of a local server. Plain `http` to this machine
//! needs none of these features: the caller that waits for the response drives the connection, and
//! leaves the connection idle for the next request.

mod driven;
mod watched_stream;

use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use pillion_deadline::timeout;
use reqwest::ResponseBuilderExt;
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Position, Url};

use self::driven::{DrivenBody, DrivenConnection};
use super::client::USER_AGENT_PRODUCT;
use super::redirect::Redirect;
use super::resolver::{self, Lookup};
use super::{ConnectionChoice, EgressPolicy, HostName, KeepAliveEstimate, is_local_host};

/// Timeout for connecting. After the timeout, the caller uses the full HTTP client instead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of the sweeps. Each sweep closes the connections that have been idle for at least this
/// time, so an idle connection is closed after 90 to 180 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum number of idle connections of a runtime.
const MAX_IDLE_CONNECTIONS: usize = 128;

/// Maximum number of idle connections of a runtime until the server is known to keep idle
/// connections open. Until then, a request that must not be sent again uses an idle connection only
/// after a minimum idle time.
const MAX_UNPROVEN_CONNECTIONS: usize = 8;

/// The outcome of a request.
pub enum SendOutcome {
    /// The server has responded; the body of the response has not been read yet.
    Response(reqwest::Response),
    /// The connection broke after the server received, or may have received, the request.
    Broken(DirectError),
    /// The server has not received the request. The caller must use the full HTTP client.
    NotSent,
    /// The server redirects to this URL within the origin. The caller must use the full HTTP
    /// client.
    Redirected(Url),
    /// The server redirects to another origin, which is forbidden.
    RedirectRejected,
}

/// A direct connection broke while a request was in flight.
#[derive(Debug, thiserror::Error)]
#[error("the direct connection was lost")]
pub struct DirectError(#[source] hyper::Error);

/// Connections to one URL. Each connection belongs to the runtime that opened it.
pub struct DirectClient {
    policy: EgressPolicy,
    lookup: Lookup,
    url: Url,
    target: Uri,
    host_header: HeaderValue,
    idle_connections: Mutex<IdleConnections>,
    keep_alive: KeepAliveEstimate,
    /// Whether the server has redirected a request. If so, using only the full HTTP client is
    /// faster.
    has_redirected: AtomicBool,
}

#[derive(Default)]
struct IdleConnections {
    connections_by_runtime: Vec<RuntimeConnections>,
    /// Closes expired idle connections; ends when this client is dropped.
    sweeper: Option<AbortOnDropHandle<()>>,
}

/// The idle connections of one runtime.
struct RuntimeConnections {
    runtime: runtime::Id,
    /// The idle connections in the order of their last use.
    idle_connections: Vec<IdleConnection>,
}

struct IdleConnection {
    connection: DrivenConnection,
    idle_since: Instant,
}

impl IdleConnections {
    fn get_mut(&mut self, runtime: runtime::Id) -> Option<&mut RuntimeConnections> {
        let mut runtimes = self.connections_by_runtime.iter_mut();
        runtimes.find(|connections| connections.runtime == runtime)
    }
}

impl DirectClient {
    /// Creates a client for `url`; `None` unless `url` is plain http to this machine and contains no
    /// credentials. Requests to this machine use no proxy.
    pub fn for_url(url: &Url, policy: &EgressPolicy) -> Option<Arc<Self>> {
        let host = url.host()?;
        let has_credential = !url.username().is_empty() || url.password().is_some();
        if url.scheme() != "http" || !is_local_host(&host) || has_credential {
            return None;
        }
        if policy.check_url(url).is_err() {
            return None;
        }
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let target = &url[Position::BeforePath..Position::AfterQuery];
        Some(Arc::new(Self {
            policy: policy.clone(),
            lookup: resolver::system_lookup(),
            url: url.clone(),
            target: target.parse().ok()?,
            host_header: HeaderValue::from_str(authority).ok()?,
            idle_connections: Mutex::default(),
            keep_alive: KeepAliveEstimate::default(),
            has_redirected: AtomicBool::new(false),
        }))
    }

    /// Sends a POST request over a connection that `choice` allows.
    pub async fn post(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Bytes,
        choice: ConnectionChoice,
    ) -> SendOutcome {
        if self.has_redirected.load(Ordering::Relaxed) {
            return SendOutcome::NotSent;
        }
        let mut request = self.create_request(headers, body);
        loop {
            let Some(mut connection) = self.acquire_connection(choice).await else {
                return SendOutcome::NotSent;
            };
            let idle_time = connection.idle_time;
            let (error, unsent) = match connection.send(request).await {
                Ok(response) => {
                    if idle_time.is_some() {
                        self.keep_alive.note_reused();
                    }
                    return self.read_response(response, connection).await;
                }
                Err(failure) => failure,
            };
            match (unsent, idle_time) {
                // The server closed the connection while the connection was idle.
                (Some(unsent_request), Some(idle_time)) => {
                    self.keep_alive.note_closed(idle_time);
                    request = unsent_request;
                }
                (Some(_), None) => return SendOutcome::NotSent,
                (None, idle_time) => {
                    if let Some(idle_time) = idle_time {
                        self.keep_alive.note_broken(idle_time);
                    }
                    return SendOutcome::Broken(DirectError(error));
                }
            }
        }
    }

    /// Forgets how long the server keeps idle connections open, because the server has restarted.
    pub fn forget_closes(&self) {
        self.keep_alive.forget_closes();
    }

    fn create_request(&self, headers: &HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        let request_headers = request.headers_mut();
        request_headers.clone_from(headers);
        request_headers
            .entry(HOST)
            .or_insert_with(|| self.host_header.clone());
        request_headers
            .entry(USER_AGENT)
            .or_insert(USER_AGENT_PRODUCT);
        request
    }

    /// Creates the outcome for a response. Reading the body of the response drives `connection`.
    async fn read_response(
        self: &Arc<Self>,
        response: Response<Incoming>,
        mut connection: DrivenConnection,
    ) -> SendOutcome {
        let (head, incoming) = response.into_parts();
        match Redirect::for_response(&self.url, head.status, &head.headers) {
            Redirect::NotRedirected => {}
            Redirect::Rejected => return SendOutcome::RedirectRejected,
            Redirect::SameOrigin(url) => {
                self.has_redirected.store(true, Ordering::Relaxed);
                return SendOutcome::Redirected(url);
            }
        }
        // Normally, reading the body of a response to its end releases the connection. A response
        // without a body is never read, so the connection is released here.
        let body_connection = if incoming.is_end_stream() && connection.is_free_now().await {
            self.release(connection)
        } else {
            Some(connection)
        };
        let body = reqwest::Body::wrap(DrivenBody {
            incoming,
            connection: Mutex::new(body_connection),
            client: Arc::clone(self),
        });
        // The URL is set explicitly, because reqwest would otherwise parse a placeholder URL for
        // every response.
        let response_with_url = Response::builder().url(self.url.clone()).body(());
        let mut response_with_body = response_with_url.unwrap_or_default().map(|()| body);
        *response_with_body.status_mut() = head.status;
        *response_with_body.headers_mut() = head.headers;
        SendOutcome::Response(response_with_body.into())
    }

    /// Returns an idle or a new connection; `None` if connecting fails.
    async fn acquire_connection(&self, choice: ConnectionChoice) -> Option<DrivenConnection> {
        let runtime = Handle::current().id();
        while let Some((mut connection, idle_time)) = self.take(runtime, choice) {
            if connection.is_open_now().await {
                if choice == ConnectionChoice::Reliable {
                    self.keep_alive.note_reused();
                }
                connection.idle_time = Some(idle_time);
                return Some(connection);
            }
            self.keep_alive.note_closed(idle_time);
        }
        for address in self.look_up_addresses().await {
            let connect_outcome = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = connect_outcome {
                return DrivenConnection::new(stream, runtime).await;
            }
        }
        None
    }

    /// Removes the connection that has been idle for the shortest time, and returns the connection
    /// with its idle time. If even this connection has been idle for too long, closes all idle
    /// connections of the runtime.
    fn take(
        &self,
        runtime: runtime::Id,
        choice: ConnectionChoice,
    ) -> Option<(DrivenConnection, Duration)> {
        if choice == ConnectionChoice::New {
            return None;
        }
        // The connections are dropped after the lock is released, because closing a connection is a
        // system call.
        let _expired_connections = {
            let mut idle_connections = self.idle_connections.lock();
            let connections = &mut idle_connections.get_mut(runtime)?.idle_connections;
            let idle_time = connections.last()?.idle_since.elapsed();
            if self.keep_alive.allows(idle_time, choice) {
                let idle_connection = connections.pop()?;
                return Some((idle_connection.connection, idle_time));
            }
            if !self.keep_alive.is_expired(idle_time) {
                return None;
            }
            // The remaining connections have been idle for even longer, so they have expired, too.
            mem::take(connections)
        };
        None
    }

    /// Makes a connection idle for the next request. Closes the connection if the server keeps no
    /// connections, or if enough connections are idle. Always returns `None`, because the caller no
    /// longer has a connection.
    fn release(self: &Arc<Self>, connection: DrivenConnection) -> Option<DrivenConnection> {
        let keep_alive = &self.keep_alive;
        let max_connections = match (keep_alive.keeps_connections(), keep_alive.is_proven()) {
            (false, _) => return None,
            (true, false) => MAX_UNPROVEN_CONNECTIONS,
            (true, true) => MAX_IDLE_CONNECTIONS,
        };
        let runtime = connection.runtime;
        let idle_connection = IdleConnection {
            connection,
            idle_since: Instant::now(),
        };
        let mut idle_connections = self.idle_connections.lock();
        match idle_connections.get_mut(runtime) {
            Some(connections) if connections.idle_connections.len() >= max_connections => {
                return None;
            }
            Some(connections) => connections.idle_connections.push(idle_connection),
            None => idle_connections
                .connections_by_runtime
                .push(RuntimeConnections {
                    runtime,
                    idle_connections: vec![idle_connection],
                }),
        }
        let sweeper = idle_connections.sweeper.as_ref();
        if sweeper.is_none_or(AbortOnDropHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            let task = runtime.spawn(Self::close_idle_connections(Arc::downgrade(self)));
            idle_connections.sweeper = Some(AbortOnDropHandle::new(task));
        }
        None
    }

    /// Closes expired connections until no connection is left.
    async fn close_idle_connections(client: Weak<Self>) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let Some(client) = client.upgrade() else {
                return;
            };
            let connections_by_runtime = &mut client.idle_connections.lock().connections_by_runtime;
            connections_by_runtime.retain_mut(|connections| {
                let idle_connections = &mut connections.idle_connections;
                idle_connections
                    .retain(|idle_connection| idle_connection.idle_since.elapsed() < IDLE_TIMEOUT);
                !idle_connections.is_empty()
            });
            if connections_by_runtime.is_empty() {
                return;
            }
        }
    }

    /// Returns those addresses of the server's host that the policy allows.
    async fn look_up_addresses(&self) -> Vec<SocketAddr> {
        let (Some(host), Some(port)) = (self.url.host(), self.url.port_or_known_default()) else {
            return Vec::new(); // Every `http` URL has a host and a port.
        };
        let addresses = match host {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => {
                let found_addresses = (self.lookup)(name.to_owned()).await.unwrap_or_default();
                let host = HostName::from_name(name);
                resolver::filter_addresses(&self.policy, host, found_addresses).unwrap_or_default()
            }
        };
        let socket_addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, port));
        socket_addresses.collect()
    }
}

#[cfg(test)]
mod tests;
