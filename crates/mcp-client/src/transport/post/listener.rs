use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::PostConnection;
use super::pauses::Pauses;
use super::resumption::{DEFAULT_RETRY_INTERVAL, create_resume_headers};
use crate::McpErrorKind;
use crate::http::{EventBody, ResponseReader, parse_event};
use crate::peer::OutgoingResponses;

/// Pause before a stream that cannot be resumed is requested again.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum pause between two streams, reached if the streams deliver no messages.
const MAX_RECONNECT_INTERVAL: Duration = Duration::from_secs(30);

/// Minimum lifetime after which a stream counts as useful, even without messages.
const MIN_USEFUL_LIFETIME: Duration = Duration::from_secs(10);

/// Timeout for checking whether the server knows the session.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for opening the stream. Some servers send the response head only with the first event.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Receives messages on the GET stream until dropped (MCP 2025-11-25, "Listening for Messages from
/// the Server"). Listening ends early if the server offers no such stream, or if the session no
/// longer exists.
pub(super) struct GetStreamListener {
    ready_receiver: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

impl GetStreamListener {
    pub(super) fn start(connection: Arc<PostConnection>) -> Self {
        let (ready_sender, ready_receiver) = watch::channel(false);
        Self {
            ready_receiver,
            _task: AbortOnDropHandle::new(tokio::spawn(listen(connection, ready_sender))),
        }
    }

    /// Waits until the first attempt to open the stream has succeeded or failed.
    pub(super) fn wait_until_ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ready_receiver = self.ready_receiver.clone();
        async move {
            let ready_signal = ready_receiver.wait_for(|is_ready| *is_ready);
            // The outcome is ignored: the caller continues even if the attempt fails or times out.
            let _ = tokio::time::timeout(OPEN_TIMEOUT, ready_signal).await;
        }
    }
}

/// What to do after the server has rejected a stream.
enum StreamRejection {
    /// Retry later, because the server is unreachable or busy.
    RetryLater,
    /// Retry at once without `Last-Event-ID`.
    RetryFromStart,
    /// Stop, because the server has no listening stream.
    NotOffered,
    /// Stop, because the session does not exist.
    SessionLost,
}

async fn listen(connection: Arc<PostConnection>, ready_sender: watch::Sender<bool>) {
    let mut resume_headers = HeaderMap::new();
    let mut pauses = Pauses::with_max(MAX_RECONNECT_INTERVAL);
    let mut had_stream = false;
    // The responses to the server's requests are sent by POST, so they outlive the stream on which
    // a request arrived.
    let mut responses = OutgoingResponses::default();
    loop {
        let is_resuming = !resume_headers.is_empty();
        let stream = connection
            .link
            .get_stream(connection.add_session_headers(resume_headers))
            .await;
        ready_sender.send_replace(true);
        resume_headers = HeaderMap::new();
        let requested_pause = match stream {
            Ok(body) => {
                had_stream = true;
                let stream_end = read_stream(&connection, body, &mut responses).await;
                if stream_end.was_useful {
                    pauses.reset();
                }
                resume_headers = stream_end.resume_headers;
                stream_end.retry_interval
            }
            Err(error) => {
                let retry_after = find_retry_after(&error);
                match classify_rejection(&connection, error, is_resuming, had_stream).await {
                    StreamRejection::RetryLater => retry_after,
                    StreamRejection::RetryFromStart => continue,
                    StreamRejection::NotOffered => return,
                    StreamRejection::SessionLost => {
                        connection.mark_closed();
                        return;
                    }
                }
            }
        };
        let default_pause = if resume_headers.is_empty() {
            RECONNECT_INTERVAL
        } else {
            DEFAULT_RETRY_INTERVAL
        };
        tokio::time::sleep(pauses.next_pause(requested_pause.unwrap_or(default_pause))).await;
    }
}

fn find_retry_after(error: &McpErrorKind) -> Option<Duration> {
    match error {
        McpErrorKind::HttpStatus { retry_after, .. } => *retry_after,
        _ => None,
    }
}

/// Determines what a rejected stream means. HTTP 404 can mean that the session does not exist, or
/// that the server has no such stream. If no stream was ever open, a `ping` determines which of
/// both is true.
async fn classify_rejection(
    connection: &Arc<PostConnection>,
    error: McpErrorKind,
    is_resuming: bool,
    had_stream: bool,
) -> StreamRejection {
    tracing::debug!(%error, "The server opened no stream for notifications");
    let McpErrorKind::HttpStatus { status, .. } = error else {
        return StreamRejection::RetryLater;
    };
    match status {
        408 | 425 | 429 | 500.. => StreamRejection::RetryLater,
        400 | 404 | 410 => match connection.check_session(Err::<(), _>(error)) {
            Err(McpErrorKind::SessionExpired) if had_stream => StreamRejection::SessionLost,
            _ if is_resuming => StreamRejection::RetryFromStart,
            _ if connection.session_id.get().is_none() => StreamRejection::NotOffered,
            _ => match pillion_deadline::timeout(PING_TIMEOUT, connection.ping()).await {
                Ok(Some(true)) => StreamRejection::NotOffered,
                Ok(Some(false)) => StreamRejection::SessionLost,
                Ok(None) | Err(_) => StreamRejection::RetryLater,
            },
        },
        // The stream is requested again without `Last-Event-ID`, because the server may have
        // rejected the event ID.
        _ if is_resuming && status != 405 => StreamRejection::RetryFromStart,
        _ => StreamRejection::NotOffered,
    }
}

/// How a listening stream ended.
struct StreamEnd {
    /// Whether the stream counts as useful, because it delivered messages or lasted for a while.
    was_useful: bool,
    /// The header for resuming the stream; empty if the stream cannot be resumed.
    resume_headers: HeaderMap,
    /// The reconnection time that the server requested.
    retry_interval: Option<Duration>,
}

/// Reads a stream to its end.
async fn read_stream(
    connection: &Arc<PostConnection>,
    body: EventBody,
    responses: &mut OutgoingResponses,
) -> StreamEnd {
    let started_at = Instant::now();
    let mut reader = ResponseReader::for_long_lived_stream(body, &connection.link.limits);
    let mut has_messages = false;
    let can_resume = loop {
        match reader.next_event().await {
            Ok(Some(event)) => {
                for message in parse_event(&event) {
                    has_messages = true;
                    connection.handle_message(message, responses);
                }
            }
            Ok(None) | Err(McpErrorKind::ConnectionBroken(_)) => break true,
            Err(error) => {
                tracing::debug!(%error, "The server's notification stream cannot be read");
                break false;
            }
        }
    };
    let resume_headers = create_resume_headers(&reader).filter(|_| can_resume);
    StreamEnd {
        was_useful: has_messages || started_at.elapsed() >= MIN_USEFUL_LIFETIME,
        resume_headers: resume_headers.unwrap_or_default(),
        retry_interval: reader.retry_interval(),
    }
}
