//! WebSocket with the subprotocol `mcp`: each MCP message is a text message.
//!
//! No revision of the specification defines this transport; servers that support WebSocket agree on
//! the subprotocol and on text messages. The opening request uses the normal HTTP client, so
//! redirects, TLS, proxies and credentials work as for HTTP.

mod upgrade;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::task::consume_budget;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDrop, AbortOnDropHandle};

use super::duplex::{Duplex, DuplexInbox, DuplexOutbox, create_duplex};
use super::{SerializedRequest, Transport};
use crate::McpErrorKind;
use crate::http::HttpLink;
use crate::message::RpcOutcome;
use crate::peer::Peer;
use crate::repeat::RepeatSafety;
use pillion_egress::CooperativeStream;

type UpgradedWebSocket = WebSocketStream<CooperativeStream<reqwest::Upgraded>>;

/// Interval of pings to the server. If nothing arrives between two pings, the connection counts as
/// dead, even if the operating system has not noticed it yet.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Maximum number of pings, pongs and empty messages from the server in one ping interval.
/// Otherwise, pongs that wait for a server that does not read could use any amount of memory.
const MAX_EMPTY_MESSAGES_PER_INTERVAL: u32 = 1_000;

/// Timeout for sending one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for the server's close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An open WebSocket. A separate task reads and writes until the transport is closed or dropped.
pub(crate) struct WebSocketTransport {
    duplex: Duplex,
    end_token: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl WebSocketTransport {
    /// Opens a WebSocket to the server, and starts the task that reads and writes.
    ///
    /// # Errors
    /// The errors of an HTTP request; [`McpErrorKind::NotWebSocket`] if the server responds but
    /// does not open a WebSocket.
    pub(crate) async fn open(link: &HttpLink, peer: Arc<Peer>) -> Result<Self, McpErrorKind> {
        let max_message_bytes = link.limits.max_event_bytes;
        let websocket_config = WebSocketConfig::default()
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes));
        let stream = CooperativeStream::new(upgrade::open_websocket(link).await?);
        let socket =
            UpgradedWebSocket::from_raw_socket(stream, Role::Client, Some(websocket_config)).await;
        let (duplex, outbox, inbox) = create_duplex(peer, &link.label);
        let end_token = CancellationToken::new();
        let guard = end_token.clone().drop_guard();
        let connection = tokio::spawn(async move {
            let _guard = guard;
            run_connection(socket, outbox, inbox, max_message_bytes).await;
        });
        Ok(Self {
            duplex,
            end_token,
            task: AbortOnDropHandle::new(connection),
        })
    }
}

/// Communicates with the server until either side closes the connection.
async fn run_connection(
    socket: UpgradedWebSocket,
    mut outbox: DuplexOutbox,
    inbox: DuplexInbox,
    max_message_bytes: usize,
) {
    let (sink, stream) = socket.split();
    let has_received_message = Arc::new(AtomicBool::new(true));
    let read_flag = Arc::clone(&has_received_message);
    let read_operation = read_messages(stream, inbox, read_flag, max_message_bytes);
    tokio::pin!(read_operation);
    let was_closed = tokio::select! {
        () = &mut read_operation => false,
        was_closed = write_messages(sink, &mut outbox, &has_received_message) => was_closed,
    };
    if was_closed {
        // The server's close frame ends the connection; messages before it are still handled.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, read_operation).await;
    }
}

/// Reads messages until the server closes the connection or the connection breaks. The WebSocket
/// library responds to pings while messages are read.
async fn read_messages(
    mut stream: SplitStream<UpgradedWebSocket>,
    mut inbox: DuplexInbox,
    has_received_message: Arc<AtomicBool>,
    limit: usize,
) {
    let mut empty_messages = EmptyMessages::default();
    while let Some(message) = stream.next().await {
        has_received_message.store(true, Ordering::Relaxed);
        match message {
            Ok(Message::Text(text)) if !text.is_empty() => inbox.handle_output(text.as_bytes()),
            Ok(Message::Binary(bytes)) if !bytes.is_empty() => inbox.handle_output(&bytes),
            Ok(Message::Close(frame)) => {
                tracing::debug!(?frame, "The server closed the WebSocket");
            }
            Ok(_) => {
                if empty_messages.count_message() {
                    tracing::warn!(
                        "Closing the WebSocket: the server sent more than \
                        {MAX_EMPTY_MESSAGES_PER_INTERVAL} pings and empty messages in \
                        {} s",
                        PING_INTERVAL.as_secs()
                    );
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "The WebSocket connection failed");
                match error {
                    // The rest of a message that is too large cannot be skipped, so the connection
                    // is unusable.
                    Error::Capacity(_) => inbox.close(move || McpErrorKind::TooLarge { limit }),
                    Error::Utf8(_) => inbox.close(|| McpErrorKind::InvalidUtf8),
                    _ => {}
                }
                return;
            }
        }
        consume_budget().await;
    }
}

/// Counts the pings, pongs and empty messages of the current ping interval.
struct EmptyMessages {
    count: u32,
    started_at: Instant,
}

impl Default for EmptyMessages {
    fn default() -> Self {
        Self {
            count: 0,
            started_at: Instant::now(),
        }
    }
}

impl EmptyMessages {
    /// Counts a ping, pong or empty message. Returns whether the current ping interval has more
    /// than [`MAX_EMPTY_MESSAGES_PER_INTERVAL`].
    fn count_message(&mut self) -> bool {
        if self.started_at.elapsed() >= PING_INTERVAL {
            *self = Self::default();
        }
        self.count += 1;
        self.count > MAX_EMPTY_MESSAGES_PER_INTERVAL
    }
}

/// Writes messages and pings. Returns `true` if the client closed the connection.
async fn write_messages(
    mut sink: SplitSink<UpgradedWebSocket, Message>,
    outbox: &mut DuplexOutbox,
    has_received_message: &AtomicBool,
) -> bool {
    let mut ping_interval = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    ping_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = outbox.next_message() => match message {
                Some((message, _)) => text_message(message),
                None => break,
            },
            _ = ping_interval.tick() => {
                if !has_received_message.swap(false, Ordering::Relaxed) {
                    tracing::debug!("Closing the WebSocket: the server did not answer a ping");
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

async fn send(sink: &mut SplitSink<UpgradedWebSocket, Message>, message: Message) -> bool {
    match tokio::time::timeout(SEND_TIMEOUT, sink.send(message)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "Cannot send a message over the WebSocket");
            false
        }
        Err(_) => {
            tracing::debug!("Closing the WebSocket: sending a message timed out");
            false
        }
    }
}

/// Converts a JSON-RPC message to a text message; JSON is always UTF-8.
fn text_message(message: Bytes) -> Option<Message> {
    Utf8Bytes::try_from(message).ok().map(Message::Text)
}

#[async_trait]
impl Transport for WebSocketTransport {
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind> {
        self.duplex.exchange(request).await
    }

    async fn notify(&self, message: Bytes, _safety: RepeatSafety) -> Result<(), McpErrorKind> {
        self.duplex.notify(message).await
    }

    fn is_open(&self) -> bool {
        self.duplex.is_open()
    }

    /// Sends a close frame and waits, with a timeout, for the server's close frame.
    async fn close(&self) {
        // The guard aborts the connection's task at the end, even if the caller drops this future.
        let _abort_guard = AbortOnDrop::new(self.task.abort_handle());
        let close_operation = async {
            self.duplex.end_writing().await;
            self.end_token.cancelled().await;
        };
        let _ = tokio::time::timeout(2 * CLOSE_TIMEOUT, close_operation).await;
    }
}
