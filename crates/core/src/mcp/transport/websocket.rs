//! WebSocket: one message of the protocol is one text message, under the subprotocol `mcp`.
//!
//! No revision of the specification has this transport; servers that do agree on that
//! much. The request for it goes out like any other, so that redirects, TLS, proxies and
//! credentials are what they are for HTTP.

mod upgrade;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDrop, AbortOnDropHandle};

use super::duplex::{Duplex, Inbox, Outbox, duplex};
use super::{Outgoing, Transport, TransportFuture};
use crate::mcp::http::HttpLink;
use crate::mcp::jsonrpc::RpcOutcome;
use crate::mcp::peer::Peer;
use crate::mcp::{McpErrorKind, ProtocolVersion};

type Socket = WebSocketStream<reqwest::Upgraded>;

/// How often the server is pinged. One that has said nothing at all from one ping to the
/// next is gone, though the system may not know it yet.
const PING_EVERY: Duration = Duration::from_secs(20);

/// How long a server may take to read one message.
const SEND_PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take to answer our goodbye.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// An open WebSocket.
pub(in crate::mcp) struct WebSocketTransport {
    duplex: Duplex,
    ended: CancellationToken,
    connection: AbortOnDropHandle<()>,
}

impl WebSocketTransport {
    /// Asks the server for a WebSocket.
    ///
    /// # Errors
    /// As every HTTP request; [`McpErrorKind::NotWebSocket`] when the server answers, but
    /// with no WebSocket.
    pub(in crate::mcp) async fn open(
        link: &HttpLink,
        peer: Arc<Peer>,
    ) -> Result<Self, McpErrorKind> {
        let limit = link.limits.max_event_bytes;
        let limits = WebSocketConfig::default()
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        let upgraded = upgrade::request(link).await?;
        let socket = Socket::from_raw_socket(upgraded, Role::Client, Some(limits)).await;
        let (duplex, outbox, inbox) = duplex(peer);
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        let connection = tokio::spawn(async move {
            let _guard = guard;
            run(socket, outbox, inbox, limit).await;
        });
        Ok(Self {
            duplex,
            ended,
            connection: AbortOnDropHandle::new(connection),
        })
    }
}

/// The task that speaks with the server, until one of the two ends it.
async fn run(socket: Socket, mut outbox: Outbox, inbox: Inbox, limit: usize) {
    let (sink, stream) = socket.split();
    let heard = Arc::new(AtomicBool::new(true));
    let reading = read(stream, inbox, Arc::clone(&heard), limit);
    tokio::pin!(reading);
    let said_goodbye = tokio::select! {
        () = &mut reading => false,
        said_goodbye = write(sink, &mut outbox, &heard) => said_goodbye,
    };
    if said_goodbye {
        // The server's own goodbye ends it; what comes before that still counts.
        let _ = tokio::time::timeout(CLOSE_PATIENCE, reading).await;
    }
}

/// Reads until the server closes or breaks the connection. Pings are answered on the way.
async fn read(
    mut stream: SplitStream<Socket>,
    mut inbox: Inbox,
    heard: Arc<AtomicBool>,
    limit: usize,
) {
    while let Some(message) = stream.next().await {
        heard.store(true, Ordering::Relaxed);
        match message {
            Ok(Message::Text(text)) => inbox.take(text.as_bytes()),
            Ok(Message::Binary(bytes)) => inbox.take(&bytes),
            Ok(Message::Close(frame)) => {
                tracing::debug!(?frame, "The server closed the WebSocket");
            }
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Err(error) => {
                tracing::debug!(%error, "The WebSocket broke");
                match error {
                    // The rest of the message cannot be skipped: the connection is over.
                    Error::Capacity(_) => inbox.close(move || McpErrorKind::TooLarge { limit }),
                    Error::Utf8(_) => inbox.close(|| McpErrorKind::InvalidUtf8),
                    _ => {}
                }
                return;
            }
        }
    }
}

/// Writes what comes, and pings. True when it was our side that ended the connection.
async fn write(
    mut sink: SplitSink<Socket, Message>,
    outbox: &mut Outbox,
    heard: &AtomicBool,
) -> bool {
    let mut pings = tokio::time::interval_at(tokio::time::Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = outbox.next() => match message {
                Some((message, _)) => text(message),
                None => break,
            },
            _ = pings.tick() => {
                if !heard.swap(false, Ordering::Relaxed) {
                    tracing::debug!("The server does not answer pings any more");
                    return false;
                }
                Some(Message::Ping(Bytes::new()))
            }
        };
        if let Some(message) = message
            && !send(&mut sink, message).await
        {
            return false;
        }
    }
    send(&mut sink, Message::Close(None)).await
}

async fn send(sink: &mut SplitSink<Socket, Message>, message: Message) -> bool {
    match tokio::time::timeout(SEND_PATIENCE, sink.send(message)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "The WebSocket does not take messages any more");
            false
        }
        Err(_) => {
            tracing::debug!("The server does not read any more");
            false
        }
    }
}

/// Our messages are JSON and so UTF-8.
fn text(message: Bytes) -> Option<Message> {
    Utf8Bytes::try_from(message).ok().map(Message::Text)
}

impl Transport for WebSocketTransport {
    fn exchange(&self, request: Outgoing) -> TransportFuture<'_, Result<RpcOutcome, McpErrorKind>> {
        Box::pin(self.duplex.exchange(request))
    }

    fn notify(&self, message: Bytes) -> TransportFuture<'_, Result<(), McpErrorKind>> {
        Box::pin(self.duplex.notify(message))
    }

    fn is_open(&self) -> bool {
        self.duplex.is_open()
    }

    /// There are no headers to say it in.
    fn negotiated(&self, _version: ProtocolVersion) {}

    /// Says goodbye and waits for the server's, unless the server does not even listen.
    fn close(&self) -> TransportFuture<'_, ()> {
        Box::pin(async {
            // Also when whoever closes has no patience left.
            let _abort = AbortOnDrop::new(self.connection.abort_handle());
            let goodbye = async {
                self.duplex.end().await;
                self.ended.cancelled().await;
            };
            let _ = tokio::time::timeout(2 * CLOSE_PATIENCE, goodbye).await;
        })
    }
}
