use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::McpErrorKind;
use crate::message::RpcOutcome;

/// How long an error code or status does not cause another check, after a check has found the
/// server's transport and revision unchanged.
const FALSE_ALARM_TTL: Duration = Duration::from_secs(60);

/// Maximum number of cached errors, because a server may send any number of different codes. When
/// exceeded, the cache is cleared.
const MAX_FALSE_ALARMS: usize = 256;

/// A cache of error codes and statuses that suggested that the server's transport or revision has
/// changed, although both are unchanged. For example, a tool may use such a code for its own
/// errors. Without this cache, every failed call of that tool would check the server.
#[derive(Default)]
pub(super) struct FalseAlarms {
    /// The time at which each cached error expires.
    expiry_times: Mutex<HashMap<UnexpectedResponse, Instant>>,
}

/// The JSON-RPC error code or the HTTP status of an error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum UnexpectedResponse {
    Code(i64),
    Status(u16),
}

impl UnexpectedResponse {
    fn from_outcome(outcome: &Result<RpcOutcome, McpErrorKind>) -> Option<Self> {
        match outcome {
            Ok(Err(error)) => Some(Self::Code(error.code)),
            Err(McpErrorKind::HttpStatus { status, .. }) => Some(Self::Status(*status)),
            _ => None,
        }
    }
}

impl FalseAlarms {
    /// Caches the error of `outcome`. Called after a check has found the server's transport and
    /// revision unchanged.
    pub(super) fn add(&self, outcome: &Result<RpcOutcome, McpErrorKind>) {
        if let Some(response) = UnexpectedResponse::from_outcome(outcome) {
            let expires_at = Instant::now() + FALSE_ALARM_TTL;
            let mut expiry_times = self.expiry_times.lock();
            if expiry_times.len() >= MAX_FALSE_ALARMS {
                expiry_times.clear();
            }
            expiry_times.insert(response, expires_at);
        }
    }

    /// Returns whether the error of `outcome` is cached: after a recent occurrence of the error, a
    /// check found the server's transport and revision unchanged.
    pub(super) fn contains(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let expires_at = UnexpectedResponse::from_outcome(outcome)
            .and_then(|response| self.expiry_times.lock().get(&response).copied());
        expires_at.is_some_and(|expires_at| Instant::now() < expires_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RpcError;

    #[tokio::test(start_paused = true)]
    async fn a_confirmed_outcome_is_not_checked_again_for_a_while() {
        let outcome = |code| Ok(Err(RpcError::new(code, "no dice")));
        let confirmed = FalseAlarms::default();
        assert!(!confirmed.contains(&outcome(-32000)));
        confirmed.add(&outcome(-32000));
        assert!(confirmed.contains(&outcome(-32000)));
        assert!(!confirmed.contains(&outcome(-32001)));
        assert!(!confirmed.contains(&Err(McpErrorKind::StreamClosed)));
        tokio::time::advance(FALSE_ALARM_TTL).await;
        assert!(!confirmed.contains(&outcome(-32000)));
        for code in 0..10_000 {
            confirmed.add(&outcome(code));
        }
        assert!(confirmed.contains(&outcome(9_999)));
        assert!(confirmed.expiry_times.lock().len() <= MAX_FALSE_ALARMS);
    }
}
