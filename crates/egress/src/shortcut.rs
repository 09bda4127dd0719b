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
use super::client::PRODUCT;
use super::redirect::Redirect;
use super::resolver::{self, Lookup};
use super::{ConnectionChoice, EgressPolicy, HostName, KeepAliveEstimate, is_local_host};

/// Timeout for connecting. After the timeout, the full HTTP client is used.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of the sweeps, each of which closes the connections that have been idle for at least
/// this time: an idle connection is closed after 90 to 180 s. Servers close idle connections, too.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum number of idle connections of a runtime.
const MAX_IDLE_CONNECTIONS: usize = 128;

/// Maximum number of idle connections of a runtime while the server has not yet kept a connection.
/// Calls use none of these connections until then.
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
#[error("the direct connection broke")]
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
    /// Whether the server redirects requests, so that the full HTTP client is faster.
    redirects: AtomicBool,
}

#[derive(Default)]
struct IdleConnections {
    by_runtime: Vec<RuntimeConnections>,
    /// Closes expired idle connections; ends when this client is dropped.
    sweeper: Option<AbortOnDropHandle<()>>,
}

/// The idle connections of one runtime.
struct RuntimeConnections {
    runtime: runtime::Id,
    /// The idle connections in the order of their last use.
    idle: Vec<IdleConnection>,
}

struct IdleConnection {
    connection: DrivenConnection,
    since: Instant,
}

impl IdleConnections {
    fn get_mut(&mut self, runtime: runtime::Id) -> Option<&mut RuntimeConnections> {
        let mut all = self.by_runtime.iter_mut();
        all.find(|connections| connections.runtime == runtime)
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
        Some(Arc::new(Self {
            policy: policy.clone(),
            lookup: resolver::system(),
            url: url.clone(),
            target: url[Position::BeforePath..Position::AfterQuery]
                .parse()
                .ok()?,
            host_header: HeaderValue::from_str(authority).ok()?,
            idle_connections: Mutex::default(),
            keep_alive: KeepAliveEstimate::default(),
            redirects: AtomicBool::new(false),
        }))
    }

    /// Sends a POST request over a connection that `choice` allows.
    pub async fn post(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Bytes,
        choice: ConnectionChoice,
    ) -> SendOutcome {
        if self.redirects.load(Ordering::Relaxed) {
            return SendOutcome::NotSent;
        }
        let mut request = self.request(headers, body);
        loop {
            let Some(mut connection) = self.connection(choice).await else {
                return SendOutcome::NotSent;
            };
            let idle = connection.idle;
            let (error, unsent) = match connection.send(request).await {
                Ok(response) => {
                    if idle.is_some() {
                        self.keep_alive.note_reused();
                    }
                    return self.read_response(response, connection).await;
                }
                Err(failure) => failure,
            };
            match (unsent, idle) {
                // The server closed the connection while the connection was idle.
                (Some(unsent), Some(idle)) => {
                    self.keep_alive.note_closed(idle);
                    request = unsent;
                }
                (Some(_), None) => return SendOutcome::NotSent,
                (None, idle) => {
                    if let Some(idle) = idle {
                        self.keep_alive.note_broken(idle);
                    }
                    return SendOutcome::Broken(DirectError(error));
                }
            }
        }
    }

    /// Forgets how long the server keeps connections, because the server has restarted.
    pub fn forget_closes(&self) {
        self.keep_alive.forget_closes();
    }

    fn request(&self, headers: &HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        let all = request.headers_mut();
        all.clone_from(headers);
        all.entry(HOST).or_insert_with(|| self.host_header.clone());
        all.entry(USER_AGENT).or_insert(PRODUCT);
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
            Redirect::None => {}
            Redirect::Rejected => return SendOutcome::RedirectRejected,
            Redirect::Within(url) => {
                self.redirects.store(true, Ordering::Relaxed);
                return SendOutcome::Redirected(url);
            }
        }
        // A response without a body does not return its connection, so the connection is released
        // here.
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
        // Without an explicit URL, reqwest would parse a placeholder, which takes long.
        let with_url = Response::builder().url(self.url.clone()).body(());
        let mut with_body = with_url.unwrap_or_default().map(|()| body);
        *with_body.status_mut() = head.status;
        *with_body.headers_mut() = head.headers;
        SendOutcome::Response(with_body.into())
    }

    /// Returns an idle or a new connection; `None` if connecting fails.
    async fn connection(&self, choice: ConnectionChoice) -> Option<DrivenConnection> {
        let runtime = Handle::current().id();
        while let Some((mut connection, idle)) = self.take(runtime, choice) {
            if connection.is_open_now().await {
                if choice == ConnectionChoice::Reliable {
                    self.keep_alive.note_reused();
                }
                connection.idle = Some(idle);
                return Some(connection);
            }
            self.keep_alive.note_closed(idle);
        }
        for address in self.addresses().await {
            let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = connected {
                return DrivenConnection::new(stream, runtime).await;
            }
        }
        None
    }

    /// Removes and returns the connection that has been idle for the shortest time, with that time.
    /// Closes the connections that are too old.
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
        let _expired = {
            let mut idle_connections = self.idle_connections.lock();
            let idle = &mut idle_connections.get_mut(runtime)?.idle;
            let time = idle.last()?.since.elapsed();
            if self.keep_alive.allows(time, choice) {
                return idle.pop().map(|taken| (taken.connection, time));
            }
            if !self.keep_alive.is_expired(time) {
                return None;
            }
            // All other connections have been idle for longer.
            mem::take(idle)
        };
        None
    }

    /// Makes a connection idle for the next request. Closes the connection if the server keeps no
    /// connections, or if enough connections are idle. Always returns `None`.
    fn release(self: &Arc<Self>, connection: DrivenConnection) -> Option<DrivenConnection> {
        let max = match (
            self.keep_alive.keeps_connections(),
            self.keep_alive.is_proven(),
        ) {
            (false, _) => return None,
            (true, false) => MAX_UNPROVEN_CONNECTIONS,
            (true, true) => MAX_IDLE_CONNECTIONS,
        };
        let (since, runtime) = (Instant::now(), connection.runtime);
        let mut idle_connections = self.idle_connections.lock();
        match idle_connections.get_mut(runtime) {
            Some(connections) if connections.idle.len() >= max => return None,
            Some(connections) => connections.idle.push(IdleConnection { connection, since }),
            None => idle_connections.by_runtime.push(RuntimeConnections {
                runtime,
                idle: vec![IdleConnection { connection, since }],
            }),
        }
        let sweeper = idle_connections.sweeper.as_ref();
        if sweeper.is_none_or(AbortOnDropHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            let task = runtime.spawn(Self::close_idle(Arc::downgrade(self)));
            idle_connections.sweeper = Some(AbortOnDropHandle::new(task));
        }
        None
    }

    /// Closes expired connections until no connection is left.
    async fn close_idle(client: Weak<Self>) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let Some(client) = client.upgrade() else {
                return;
            };
            let by_runtime = &mut client.idle_connections.lock().by_runtime;
            by_runtime.retain_mut(|connections| {
                let idle = &mut connections.idle;
                idle.retain(|idle| idle.since.elapsed() < IDLE_TIMEOUT);
                !idle.is_empty()
            });
            if by_runtime.is_empty() {
                return;
            }
        }
    }

    /// Returns the addresses of the host that the policy allows.
    async fn addresses(&self) -> Vec<SocketAddr> {
        let (Some(host), Some(port)) = (self.url.host(), self.url.port_or_known_default()) else {
            return Vec::new(); // Every `http` URL has a host and a port.
        };
        let addresses = match host {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => match (self.lookup)(name.to_owned()).await {
                Ok(addresses) => {
                    resolver::allowed(&self.policy, HostName::from_name(name), addresses)
                        .unwrap_or_default()
                }
                Err(_) => Vec::new(),
            },
        };
        addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect()
    }
}

#[cfg(test)]
mod tests;
