use std::time::Duration;

use axum::body::Bytes;
use tokio::time::{Instant, timeout_at};

use super::TokenValidity;

/// Interval of heartbeats on an idle event stream. They detect a disconnected client, and prevent
/// proxies from closing the connection.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Adds heartbeats to an event stream, and ends the stream when the token of its request is no
/// longer valid.
#[derive(Debug)]
pub struct Heartbeat {
    token: TokenValidity,
    next: Instant,
}

impl Heartbeat {
    /// A comment, which clients ignore.
    pub const COMMENT: &[u8] = b": \n\n";

    /// Creates heartbeats for the stream of a request with this token.
    pub fn new(token: TokenValidity) -> Self {
        let next = Instant::now() + HEARTBEAT_INTERVAL;
        Self { token, next }
    }

    /// Returns the next event, or a heartbeat if none comes in time; `None` at the end of the
    /// stream. Checks the token once in each interval. `event` must be cancellation-safe.
    pub async fn next_event_or_heartbeat(
        &mut self,
        event: impl Future<Output = Option<Bytes>>,
    ) -> Option<Bytes> {
        let event = match timeout_at(self.next, event).await {
            Ok(event) => event?,
            Err(_) => Bytes::from_static(Self::COMMENT),
        };
        let now = Instant::now();
        if now >= self.next {
            if !self.token.holds().await {
                return None;
            }
            self.next = now + HEARTBEAT_INTERVAL;
        }
        Some(event)
    }
}
