use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use super::{AccessGate, AccessGrant};

/// Checks, while a long stream is sent, whether the token of the stream's request is still valid.
/// Attached to every TCP request with a token as an HTTP extension.
#[derive(Clone, Default)]
pub struct TokenValidity(Option<Arc<StreamToken>>);

struct StreamToken {
    text: SecretString,
    grant: AccessGrant,
    current_gate: CurrentGate,
}

/// A function that returns the gate of the current configuration, or `None` if there is no gate.
type CurrentGate = Box<dyn Fn() -> Option<Arc<AccessGate>> + Send + Sync>;

impl TokenValidity {
    /// Creates the check of a token that grants the permission `grant`.
    pub(super) fn new(
        text: &str,
        grant: AccessGrant,
        current_gate: impl Fn() -> Option<Arc<AccessGate>> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(StreamToken {
            text: text.into(),
            grant,
            current_gate: Box::new(current_gate),
        })))
    }

    /// Returns whether the token still grants the permission that it granted when the request
    /// began. Also returns `false` if the token cannot be checked. The stream then ends, and the
    /// client gets the reason as the response to its next request.
    pub(crate) async fn is_valid(&self) -> bool {
        let Some(token) = &self.0 else {
            return true;
        };
        let Some(gate) = (token.current_gate)() else {
            return false;
        };
        let grant = gate.check(token.text.expose_secret()).await;
        let is_valid = grant.is_ok_and(|grant| grant.as_ref() == Some(&token.grant));
        if !is_valid {
            tracing::info!(
                client = token.grant.name,
                "Closing a stream: its access token was revoked or changed, has expired, or cannot \
                 be checked"
            );
        }
        is_valid
    }
}

impl fmt::Debug for TokenValidity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grant = self.0.as_ref().map(|token| &token.grant);
        f.debug_tuple("TokenValidity").field(&grant).finish()
    }
}

/// Interval of heartbeats on an idle event stream. Heartbeats detect a disconnected client, and
/// prevent proxies from closing the connection.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Adds heartbeats to an event stream, and ends the stream when the token of its request is no
/// longer valid.
#[derive(Debug)]
pub struct Heartbeat {
    token: TokenValidity,
    check_at: Instant,
}

impl Heartbeat {
    /// An SSE comment, which clients ignore.
    pub const COMMENT: &[u8] = b": \n\n";

    /// Creates heartbeats for the stream of a request with this token.
    pub fn new(token: TokenValidity) -> Self {
        let check_at = Instant::now() + HEARTBEAT_INTERVAL;
        Self { token, check_at }
    }

    /// Returns the next event, or a heartbeat if there is no event within the heartbeat interval;
    /// `None` at the end of the stream, or if the token is no longer valid. Checks the token once
    /// in each interval. `event` must be cancellation-safe.
    pub async fn next_event_or_heartbeat(
        &mut self,
        event: impl Future<Output = Option<Bytes>>,
    ) -> Option<Bytes> {
        let event = match timeout_at(self.check_at, event).await {
            Ok(event) => event?,
            Err(_) => Bytes::from_static(Self::COMMENT),
        };
        let now = Instant::now();
        if now >= self.check_at {
            if !self.token.is_valid().await {
                return None;
            }
            self.check_at = now + HEARTBEAT_INTERVAL;
        }
        Some(event)
    }
}
