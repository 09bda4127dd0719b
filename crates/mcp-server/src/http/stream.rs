//! Responses as event streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use futures_util::stream::unfold;
use tokio::time::timeout;

use super::headers;
use crate::source::Source;
use pillion_gateway::access::{Heartbeat, TokenValidity};

/// How long a response without a message may be silent before it becomes an event stream with
/// heartbeats, because proxies and clients give up on a silent connection. Most calls are faster,
/// and their responses stay plain JSON.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// Waits for the first message of a response. Returns `None` after `MAX_SILENCE` if the client can
/// read an [event stream](body_after_silence). `next` must be cancellation-safe.
pub(super) async fn before_silence<T>(
    headers: &HeaderMap,
    next: impl Future<Output = T>,
) -> Option<T> {
    if headers::names_stream(headers) {
        timeout(MAX_SILENCE, next).await.ok()
    } else {
        Some(next.await)
    }
}

/// Returns an event stream with the message `first` and the messages of `source`.
pub(super) fn body(first: Option<Bytes>, source: impl Source) -> Body {
    // The token is not checked again, because a running call is always completed.
    body_while_valid(first, source, TokenValidity::default())
}

/// Returns an event stream of a source that had no message yet. The stream begins with a heartbeat,
/// because some proxies wait for the first byte of a body. The stream ends when `token` is no
/// longer valid.
pub(super) fn body_after_silence(source: impl Source, token: TokenValidity) -> Body {
    events(Some(Bytes::from_static(Heartbeat::COMMENT)), source, token)
}

/// Returns an event stream like [`body`], which ends when the token of the request is no longer
/// valid.
pub(super) fn body_while_valid(
    first: Option<Bytes>,
    source: impl Source,
    token: TokenValidity,
) -> Body {
    events(first.map(|message| event(&message)), source, token)
}

fn events(first: Option<Bytes>, source: impl Source, token: TokenValidity) -> Body {
    let state = (first, source, Heartbeat::new(token));
    let stream = unfold(state, async |(first, mut source, mut heartbeat)| {
        let next = match first {
            Some(first) => first,
            None => {
                let next = async { Some(event(&source.next().await?)) };
                heartbeat.next_event_or_heartbeat(next).await?
            }
        };
        Some((Ok::<_, Infallible>(next), (None, source, heartbeat)))
    });
    Body::from_stream(Box::pin(stream))
}

/// Formats a message as an event. A raw line break in JSON can only occur between tokens.
fn event(message: &[u8]) -> Bytes {
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
