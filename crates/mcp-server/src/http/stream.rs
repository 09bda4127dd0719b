//! Responses as event streams.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures_util::stream::unfold;

use crate::source::Source;
use pillion_gateway::access::{Heartbeat, TokenValidity};

/// Returns an event stream with the message `first` and the messages of `source`.
pub(super) fn body(first: Option<Bytes>, source: impl Source) -> Body {
    // The token is not checked again: a call that has begun is completed.
    body_while_valid(first, source, TokenValidity::default())
}

/// Streams like [`body`], but ends when the token of the request is no longer valid.
pub(super) fn body_while_valid(
    first: Option<Bytes>,
    source: impl Source,
    token: TokenValidity,
) -> Body {
    let state = (first, source, Heartbeat::new(token));
    let stream = unfold(state, async |(first, mut source, mut heartbeat)| {
        let next = match first {
            Some(first) => event(&first),
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
