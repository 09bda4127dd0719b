use std::sync::atomic::{AtomicBool, Ordering};

use crate::McpErrorKind;
use crate::message::RpcOutcome;

/// Tracks whether the server may have received a request of an operation without responding to it.
#[derive(Default)]
pub(super) struct Delivery {
    is_unanswered: AtomicBool,
}

impl Delivery {
    /// Runs one exchange, and records whether the server may have received the request without
    /// responding. If the future is dropped, the request counts as received.
    pub(super) async fn track_exchange(
        &self,
        exchange: impl Future<Output = Result<RpcOutcome, McpErrorKind>>,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let was_unanswered = self.is_unanswered.swap(true, Ordering::Relaxed);
        let outcome = exchange.await;
        match &outcome {
            Ok(_) => self.record_response(),
            Err(McpErrorKind::Disconnected) => {}
            Err(error) if error.is_response_error() => {}
            // This request does not count as unanswered, because the server has rejected it or has
            // not received it.
            Err(_) => self.is_unanswered.store(was_unanswered, Ordering::Relaxed),
        }
        outcome
    }

    /// Records that the server has started to work on a request, and will respond later.
    pub(super) fn record_start(&self) {
        self.is_unanswered.store(true, Ordering::Relaxed);
    }

    /// Records that the server has responded.
    pub(super) fn record_response(&self) {
        self.is_unanswered.store(false, Ordering::Relaxed);
    }

    /// Returns whether the server may have received a request to which it has not responded.
    pub(super) fn is_unanswered(&self) -> bool {
        self.is_unanswered.load(Ordering::Relaxed)
    }
}
