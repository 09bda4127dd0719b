//! Responses as event streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream::unfold;
use tokio::time::{Instant, timeout_at};

use crate::access::TokenValidity;
use crate::mcp_server::source::Source;

/// Interval of keep-alive comments on an idle stream. They detect a disconnected client, and
/// prevent proxies from closing the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns an event stream with the message `first` and the messages of `source`.
pub(super) fn body(first: Option<Bytes>, source: impl Source) -> Body {
    // The token is not checked again: a call that has begun is completed.
    lasting_body(first, source, TokenValidity::default())
}

/// Streams like [`body`], but ends when the token of the request is no longer valid. The token is
/// checked with each keep-alive.
pub(super) fn lasting_body(
    first: Option<Bytes>,
    source: impl Source,
    standing: TokenValidity,
) -> Body {
    let state = (first, source, standing, Instant::now() + KEEP_ALIVE);
    let stream = unfold(state, async |(first, mut source, standing, at)| {
        if let Some(first) = first {
            return Some((
                Ok::<_, Infallible>(event(&first)),
                (None, source, standing, at),
            ));
        }
        let next = match timeout_at(at, source.next()).await {
            Ok(message) => event(&message?),
            Err(_) => Bytes::from_static(b": \n\n"),
        };
        let mut next_sign = at;
        let now = Instant::now();
        if now >= at {
            if !standing.holds().await {
                return None;
            }
            next_sign = now + KEEP_ALIVE;
        }
        Some((Ok(next), (None, source, standing, next_sign)))
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
