//! Responses as event streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use futures_util::stream::unfold;
use tokio::time::timeout;

use super::headers;
use crate::source::MessageSource;
use pillion_gateway::access::{Heartbeat, TokenValidity};

/// Maximum time that a client waits for the first message of a plain JSON response. After this
/// time, the response becomes an event stream with heartbeats, because proxies and clients close a
/// silent connection. Most calls are faster, and their responses stay plain JSON.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for the first message of a response. Returns `None` after `SILENCE_TIMEOUT` if the client
/// can read an [event stream](body_after_silence). `next_message` must be cancellation-safe.
pub(super) async fn wait_before_silence<T>(
    headers: &HeaderMap,
    next_message: impl Future<Output = T>,
) -> Option<T> {
    if headers::accepts_stream_explicitly(headers) {
        timeout(SILENCE_TIMEOUT, next_message).await.ok()
    } else {
        Some(next_message.await)
    }
}

/// Returns an event stream with the message `first_message` and the messages of `source`.
pub(super) fn body(first_message: Option<Bytes>, source: impl MessageSource) -> Body {
    // The validity of the token is not checked again, because a running call is always completed.
    body_while_valid(first_message, source, TokenValidity::default())
}

/// Returns an event stream of a source that had no message yet. The stream begins with a heartbeat,
/// because some proxies wait for the first byte of a body. The stream ends when the token of the
/// request is no longer valid.
pub(super) fn body_after_silence(source: impl MessageSource, validity: TokenValidity) -> Body {
    let heartbeat = Bytes::from_static(Heartbeat::COMMENT);
    event_stream_body(Some(heartbeat), source, validity)
}

/// Returns an event stream like [`body`]. The event stream ends when the token of the request is no
/// longer valid.
pub(super) fn body_while_valid(
    first_message: Option<Bytes>,
    source: impl MessageSource,
    token_validity: TokenValidity,
) -> Body {
    let first_event = first_message.map(|message| format_event(&message));
    event_stream_body(first_event, source, token_validity)
}

fn event_stream_body(
    first_event: Option<Bytes>,
    source: impl MessageSource,
    token_validity: TokenValidity,
) -> Body {
    let state = (first_event, source, Heartbeat::new(token_validity));
    let stream = unfold(state, async |(first_event, mut source, mut heartbeat)| {
        let next_event = match first_event {
            Some(first_event) => first_event,
            None => {
                let next_event = async { Some(format_event(&source.next().await?)) };
                heartbeat.next_event_or_heartbeat(next_event).await?
            }
        };
        Some((Ok::<_, Infallible>(next_event), (None, source, heartbeat)))
    });
    Body::from_stream(Box::pin(stream))
}

/// Formats a message as an event, with one `data` line for each line of the message. Splitting does
/// not change the JSON, because raw line breaks in JSON only occur between tokens.
fn format_event(message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 24);
    event.extend_from_slice(b"event: message\n");
    for line in message.split(|byte| matches!(byte, b'\n' | b'\r')) {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}
