//! A minimal HTTP/1.1 client for servers on this machine.
//!
//! The features of a full HTTP client (proxies, redirects, certificates, protocol versions, a task
//! per connection) take longer than the response of a local server. Plain `http` to this machine
//! needs none of them: the caller that waits for the response drives the connection, and leaves it
//! idle for the next request.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use pillion_deadline::timeout;
use reqwest::ResponseBuilderExt;
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Position, Url};

use super::client::PRODUCT;
use super::redirect::Redirect;
use super::resolver::{self, Lookup};
use super::{EgressPolicy, HostName, is_local_host};

/// Timeout for connecting; then the full client is used.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum idle time of a connection, which may be exceeded by up to the same time. Servers close
/// idle connections, too.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The outcome of a request.
pub enum SendOutcome {
    /// A response; its body has not been read yet.
    Answered(reqwest::Response),
    /// The connection broke after the server received, or may have received, the request.
    Broken(hyper::Error),
    /// The server has not received the request: use the full client.
    NotTaken,
    /// The server redirects to this URL within the origin: use the full client.
    Redirected(Url),
    /// The server redirects to another origin, which is forbidden.
    RedirectRefused,
}

/// Connections to one URL. Each belongs to the runtime that opened it.
pub struct DirectClient {
    policy: EgressPolicy,
    lookup: Lookup,
    url: Url,
    target: Uri,
    host_header: HeaderValue,
    waiting: Mutex<IdleConnections>,
    /// Whether the server redirects, so that the full client is faster.
    redirects: AtomicBool,
}

/// The idle connections.
#[derive(Default)]
struct IdleConnections {
    idle: Vec<Idle>,
    /// Closes expired idle connections; ends with this value.
    closing: Option<AbortOnDropHandle<()>>,
}

struct Idle {
    wire: DrivenConnection,
    since: Instant,
}

impl DirectClient {
    /// Returns the direct connection to `url`, or `None` unless `url` is plain http to this machine
    /// and contains no credentials. Requests to this machine use no proxy.
    pub fn to(url: &Url, policy: &EgressPolicy) -> Option<Arc<Self>> {
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
            waiting: Mutex::default(),
            redirects: AtomicBool::new(false),
        }))
    }

    /// Sends a POST request.
    pub async fn post(self: &Arc<Self>, headers: &HeaderMap, body: Bytes) -> SendOutcome {
        if self.redirects.load(Ordering::Relaxed) {
            return SendOutcome::NotTaken;
        }
        let mut request = self.request(headers, body);
        loop {
            let Some(mut wire) = self.wire().await else {
                return SendOutcome::NotTaken;
            };
            match wire.send(request).await {
                Ok(response) => return self.answered(response, wire).await,
                // The connection had been closed while it was idle.
                Err((_, Some(unsent))) if wire.was_used => request = unsent,
                Err((_, Some(_))) => return SendOutcome::NotTaken,
                Err((error, None)) => return SendOutcome::Broken(error),
            }
        }
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

    async fn answered(
        self: &Arc<Self>,
        response: Response<Incoming>,
        mut wire: DrivenConnection,
    ) -> SendOutcome {
        let (head, incoming) = response.into_parts();
        match Redirect::of(&self.url, head.status, &head.headers) {
            Redirect::None => {}
            Redirect::Refused => return SendOutcome::RedirectRefused,
            Redirect::Within(url) => {
                self.redirects.store(true, Ordering::Relaxed);
                return SendOutcome::Redirected(url);
            }
        }
        // Without a body, nothing would return the connection.
        let wire = match incoming.is_end_stream() && wire.turns_out_free().await {
            true => self.release(wire),
            false => Some(wire),
        };
        let body = reqwest::Body::wrap(DrivenBody {
            incoming,
            wire: Mutex::new(wire),
            home: Arc::clone(self),
        });
        // Without an explicit URL, reqwest would parse a placeholder, which takes long.
        let named = Response::builder().url(self.url.clone()).body(());
        let mut response = named.unwrap_or_default().map(|()| body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        SendOutcome::Answered(response.into())
    }

    /// Returns an idle or a new connection; `None` if connecting fails.
    async fn wire(&self) -> Option<DrivenConnection> {
        let here = Handle::current().id();
        while let Some(mut wire) = self.take(here) {
            if wire.turns_out_free().await {
                return Some(wire);
            }
        }
        for address in self.addresses().await {
            let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = connected {
                return DrivenConnection::new(stream, here).await;
            }
        }
        None
    }

    fn take(&self, runtime: runtime::Id) -> Option<DrivenConnection> {
        let idle = &mut self.waiting.lock().idle;
        let at = idle.iter().rposition(|idle| idle.wire.runtime == runtime)?;
        Some(idle.remove(at).wire)
    }

    /// Makes a connection idle for the next request. Always returns `None`.
    fn release(self: &Arc<Self>, mut wire: DrivenConnection) -> Option<DrivenConnection> {
        wire.was_used = true;
        let since = Instant::now();
        let mut waiting = self.waiting.lock();
        waiting.idle.push(Idle { wire, since });
        let closing = waiting.closing.as_ref();
        if closing.is_none_or(AbortOnDropHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            let closing = runtime.spawn(Self::close_idle(Arc::downgrade(self)));
            waiting.closing = Some(AbortOnDropHandle::new(closing));
        }
        None
    }

    /// Closes expired connections until none are left.
    async fn close_idle(shortcut: Weak<Self>) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let Some(shortcut) = shortcut.upgrade() else {
                return;
            };
            let idle = &mut shortcut.waiting.lock().idle;
            idle.retain(|idle| idle.since.elapsed() < IDLE_TIMEOUT);
            if idle.is_empty() {
                return;
            }
        }
    }

    /// Returns the allowed addresses of the host.
    async fn addresses(&self) -> Vec<SocketAddr> {
        let (Some(host), Some(port)) = (self.url.host(), self.url.port_or_known_default()) else {
            return Vec::new(); // Every `http` URL has both.
        };
        let addresses = match host {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => match (self.lookup)(name.to_owned()).await {
                Ok(addresses) => {
                    resolver::allowed(&self.policy, HostName::of_name(name), addresses)
                        .unwrap_or_default()
                }
                Err(_) => Vec::new(),
            },
        };
        let addresses = addresses.into_iter();
        addresses
            .map(|address| SocketAddr::new(address, port))
            .collect()
    }
}

type UnsentRequest = Option<Request<Full<Bytes>>>;

/// A connection, which makes progress only while it is polled.
struct DrivenConnection {
    /// The runtime that opened the connection.
    runtime: runtime::Id,
    sender: SendRequest<Full<Bytes>>,
    /// `None` after the connection has ended; pending responses then fail.
    connection: Option<Connection<TokioIo<TcpStream>, Full<Bytes>>>,
    was_used: bool,
}

impl DrivenConnection {
    async fn new(stream: TcpStream, runtime: runtime::Id) -> Option<Self> {
        let _ = stream.set_nodelay(true); // An error only makes the connection slower.
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        Some(Self {
            runtime,
            sender,
            connection: Some(connection),
            was_used: false,
        })
    }

    /// Makes progress without waiting. An error reaches the caller that waits for the response.
    fn advance(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(context).is_ready()
        {
            self.connection = None;
        }
    }

    /// Returns whether the connection appears to be ready for the next request.
    fn is_free(&mut self, context: &mut Context<'_>) -> bool {
        self.advance(context);
        self.connection.is_some() && self.sender.is_ready()
    }

    async fn turns_out_free(&mut self) -> bool {
        poll_fn(|context| Poll::Ready(self.is_free(context))).await
    }

    /// Sends a request. An error contains the request if the server cannot have received it.
    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, (hyper::Error, UnsentRequest)> {
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            self.advance(context);
            answer.as_mut().poll(context)
        })
        .await
        .map_err(|mut error| {
            let unsent = error.take_message();
            (error.into_error(), unsent)
        })
    }
}

/// The body of a response. Reading it drives the connection; after its end, the connection becomes
/// idle.
struct DrivenBody {
    incoming: Incoming,
    /// Only needed for `Sync`.
    wire: Mutex<Option<DrivenConnection>>,
    home: Arc<DirectClient>,
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let mut polled = Pin::new(&mut this.incoming).poll_frame(context);
        if polled.is_pending()
            && let Some(wire) = this.wire.get_mut()
        {
            wire.advance(context);
            polled = Pin::new(&mut this.incoming).poll_frame(context);
        }
        match &polled {
            Poll::Ready(None) => {
                if let Some(mut wire) = this.wire.get_mut().take()
                    && wire.is_free(context)
                {
                    *this.wire.get_mut() = this.home.release(wire);
                }
            }
            Poll::Ready(Some(Err(_))) => *this.wire.get_mut() = None,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        // Without this, the body would not be polled to its end, and the connection would never
        // become idle.
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests;
