use std::sync::atomic::{AtomicBool, Ordering};

use crate::McpErrorKind;
use crate::jsonrpc::RpcOutcome;

/// Tracks whether the server may have received a request of an operation without responding to it.
#[derive(Default)]
pub(super) struct Delivery {
    is_unanswered: AtomicBool,
}

impl Delivery {
    /// Runs one exchange. If the exchange is dropped, the server may have received the request.
    pub(super) async fn track(
        &self,
        exchange: impl Future<Output = Result<RpcOutcome, McpErrorKind>>,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let before = self.is_unanswered.swap(true, Ordering::Relaxed);
        let outcome = exchange.await;
        match &outcome {
            Ok(_) => self.note_response(),
            Err(McpErrorKind::Disconnected) => {}
            Err(error) if error.is_of_response() => {}
            // The server has rejected the request, or has not received it.
            Err(_) => self.is_unanswered.store(before, Ordering::Relaxed),
        }
        outcome
    }

    /// Records that the server has started to work on a request, and will respond later.
    pub(super) fn note_start(&self) {
        self.is_unanswered.store(true, Ordering::Relaxed);
    }

    /// Records that the server has responded.
    pub(super) fn note_response(&self) {
        self.is_unanswered.store(false, Ordering::Relaxed);
    }

    /// Returns whether the server may have received a request to which it has not responded.
    pub(super) fn is_unanswered(&self) -> bool {
        self.is_unanswered.load(Ordering::Relaxed)
    }
}
