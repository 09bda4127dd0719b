//! Answers as event streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream::unfold;

use crate::mcp_server::source::Source;

/// How often something is sent on a stream where nothing happens: so it is seen when the
/// client has gone, and nobody between takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An event stream: what is there already, then what comes.
pub(super) fn body(first: Option<Bytes>, source: impl Source) -> Body {
    let stream = unfold((first, Some(source)), async |(first, source)| {
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(event(&first)), (None, source)));
        }
        let mut source = source?;
        match tokio::time::timeout(KEEP_ALIVE, source.next()).await {
            Ok(Some(message)) => Some((Ok(event(&message)), (None, Some(source)))),
            Ok(None) => None,
            Err(_) => Some((Ok(Bytes::from_static(b": \n\n")), (None, Some(source)))),
        }
    });
    Body::from_stream(Box::pin(stream))
}

/// A message as an event. Lines of its own it can only have between its tokens.
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
