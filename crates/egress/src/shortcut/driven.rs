use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::coop::poll_proceed;

use super::DirectClient;
use super::watched_stream::{SocketCheck, WatchedStream};

type UnsentRequest = Option<Request<Full<Bytes>>>;

/// An HTTP connection, which makes progress only while it is polled.
pub(super) struct DrivenConnection {
    /// The runtime that opened the connection.
    pub(super) runtime: runtime::Id,
    sender: SendRequest<Full<Bytes>>,
    /// The connection; `None` after the connection has ended, so that pending responses fail.
    connection: Option<Connection<TokioIo<WatchedStream>, Full<Bytes>>>,
    socket_check: SocketCheck,
    /// How long the connection was idle before its current request; `None` for the first request.
    pub(super) idle_time: Option<Duration>,
}

impl DrivenConnection {
    pub(super) async fn new(stream: TcpStream, runtime: runtime::Id) -> Option<Self> {
        let _ = stream.set_nodelay(true); // An error only makes the connection slower.
        let (stream, socket_check) = WatchedStream::new(stream);
        // A client must accept folded header lines in responses (RFC 9112, section 5.2).
        let handshake = Builder::new()
            .allow_obsolete_multiline_headers_in_responses(true)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.ok()?;
        Some(Self {
            runtime,
            sender,
            connection: Some(connection),
            socket_check,
            idle_time: None,
        })
    }

    /// Polls the connection once. An error of the connection is reported to the caller that waits
    /// for the response.
    fn advance(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(context).is_ready()
        {
            self.connection = None;
        }
    }

    /// Returns whether the connection appears to be ready for the next request.
    pub(super) fn is_free(&mut self, context: &mut Context<'_>) -> bool {
        self.advance(context);
        self.connection.is_some() && self.sender.is_ready()
    }

    pub(super) async fn is_free_now(&mut self) -> bool {
        poll_fn(|context| Poll::Ready(self.is_free(context))).await
    }

    /// Returns whether the connection is ready for a request, and the server has not closed it, as
    /// far as this machine knows.
    pub(super) async fn is_open_now(&mut self) -> bool {
        self.socket_check.request();
        self.is_free_now().await && !self.socket_check.is_pending()
    }

    /// Sends a request. The error contains the request if the server certainly has not received it.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, (hyper::Error, UnsentRequest)> {
        let mut response = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            self.advance(context);
            response.as_mut().poll(context)
        })
        .await
        .map_err(|mut error| {
            let unsent_request = error.take_message();
            (error.into_error(), unsent_request)
        })
    }
}

/// The body of a response. Reading the body drives the connection; at the end of the body, the
/// connection becomes idle.
pub(super) struct DrivenBody {
    pub(super) incoming: Incoming,
    /// The connection over which the body arrives. In a mutex only because the body must be `Sync`.
    pub(super) connection: Mutex<Option<DrivenConnection>>,
    pub(super) client: Arc<DirectClient>,
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        // Each frame uses up a unit of the task's budget, because a single read may contain many
        // frames of one byte.
        let unit = ready!(poll_proceed(context));
        let mut frame_poll = Pin::new(&mut this.incoming).poll_frame(context);
        if frame_poll.is_pending()
            && let Some(connection) = this.connection.get_mut()
        {
            connection.advance(context);
            frame_poll = Pin::new(&mut this.incoming).poll_frame(context);
        }
        match &frame_poll {
            Poll::Ready(None) => {
                if let Some(mut connection) = this.connection.get_mut().take()
                    && connection.is_free(context)
                {
                    *this.connection.get_mut() = this.client.release(connection);
                }
            }
            Poll::Ready(Some(Err(_))) => {
                let connection = this.connection.get_mut().take();
                if let Some(idle_time) = connection.and_then(|connection| connection.idle_time) {
                    this.client.keep_alive.note_broken(idle_time);
                }
            }
            _ => {}
        }
        if frame_poll.is_ready() {
            unit.made_progress();
        }
        frame_poll
    }

    fn is_end_stream(&self) -> bool {
        // Always `false`: otherwise the body would not be polled to its end, and the connection
        // would never become idle.
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
