use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::mcp::McpErrorKind;
use crate::mcp::jsonrpc::RpcOutcome;

/// How long a server that was asked what it speaks is not asked for the same reason again.
const CONFIRMED_FOR: Duration = Duration::from_secs(60);

/// Signs of a change in what a server speaks that turned out to be none: errors that a tool
/// uses for something else. Without this every call of such a tool would ask the server.
#[derive(Default)]
pub(super) struct Confirmed {
    /// Until when each sign means nothing. They are few: codes of a small range, and statuses.
    until: Mutex<HashMap<Sign, Instant>>,
}

/// What a server answered that does not fit what it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sign {
    Code(i64),
    Status(u16),
}

impl Sign {
    fn of(outcome: &Result<RpcOutcome, McpErrorKind>) -> Option<Self> {
        match outcome {
            Ok(Err(error)) => Some(Self::Code(error.code)),
            Err(McpErrorKind::HttpStatus { status, .. }) => Some(Self::Status(*status)),
            _ => None,
        }
    }
}

impl Confirmed {
    /// The server speaks as it did, whatever this outcome seemed to say.
    pub(super) fn note(&self, outcome: &Result<RpcOutcome, McpErrorKind>) {
        if let Some(sign) = Sign::of(outcome) {
            let until = Instant::now() + CONFIRMED_FOR;
            self.until.lock().insert(sign, until);
        }
    }

    /// Whether an outcome is known to say nothing about what the server speaks.
    pub(super) fn covers(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let until = Sign::of(outcome).and_then(|sign| self.until.lock().get(&sign).copied());
        until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::RpcError;

    #[tokio::test(start_paused = true)]
    async fn the_same_sign_means_nothing_for_a_while() {
        let outcome = |code| Ok(Err(RpcError::new(code, "no dice")));
        let confirmed = Confirmed::default();
        assert!(!confirmed.covers(&outcome(-32000)));
        confirmed.note(&outcome(-32000));
        assert!(confirmed.covers(&outcome(-32000)));
        assert!(!confirmed.covers(&outcome(-32001)));
        assert!(!confirmed.covers(&Err(McpErrorKind::StreamClosed)));
        tokio::time::advance(CONFIRMED_FOR).await;
        assert!(!confirmed.covers(&outcome(-32000)));
    }
}
