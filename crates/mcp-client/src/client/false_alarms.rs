use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::McpErrorKind;
use crate::jsonrpc::RpcOutcome;

/// How long an error code or status counts as a false alarm after a check has found the server
/// unchanged.
const FALSE_ALARM_TTL: Duration = Duration::from_secs(60);

/// Maximum number of cached errors; when exceeded, the cache is cleared. A server could otherwise
/// fill the memory with error codes.
const MAX_ALARMS: usize = 256;

/// A cache of error codes and statuses that looked like a changed transport or revision, although a
/// check found the server unchanged, because a tool uses them for something else. Without this
/// cache, every call of such a tool would check the server.
#[derive(Default)]
pub(super) struct FalseAlarms {
    /// The time at which each cached error expires.
    until: Mutex<HashMap<UnexpectedResponse, Instant>>,
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
    /// Caches that a check after this outcome found the server's transport and revision unchanged.
    pub(super) fn note(&self, outcome: &Result<RpcOutcome, McpErrorKind>) {
        if let Some(response) = UnexpectedResponse::from_outcome(outcome) {
            let until = Instant::now() + FALSE_ALARM_TTL;
            let mut alarms = self.until.lock();
            if alarms.len() >= MAX_ALARMS {
                alarms.clear();
            }
            alarms.insert(response, until);
        }
    }

    /// Returns whether a recent check after the same outcome found the server's transport and
    /// protocol revision unchanged.
    pub(super) fn covers(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let until = UnexpectedResponse::from_outcome(outcome)
            .and_then(|response| self.until.lock().get(&response).copied());
        until.is_some_and(|until| Instant::now() < until)
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
        assert!(!confirmed.covers(&outcome(-32000)));
        confirmed.note(&outcome(-32000));
        assert!(confirmed.covers(&outcome(-32000)));
        assert!(!confirmed.covers(&outcome(-32001)));
        assert!(!confirmed.covers(&Err(McpErrorKind::StreamClosed)));
        tokio::time::advance(FALSE_ALARM_TTL).await;
        assert!(!confirmed.covers(&outcome(-32000)));
        for code in 0..10_000 {
            confirmed.note(&outcome(code));
        }
        assert!(confirmed.covers(&outcome(9_999)));
        assert!(confirmed.until.lock().len() <= MAX_ALARMS);
    }
}
