use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt;

use crate::McpErrorKind;

/// Number of consecutive failures after which connection attempts back off.
const FAILURE_THRESHOLD: u32 = 3;
const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(500);
const MAX_BACKOFF_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum backoff while connections are refused: a refused attempt costs the server and its
/// callers hardly any time, and callers find a restarted server within this time.
const MAX_CONNECT_BACKOFF_INTERVAL: Duration = Duration::from_secs(2);

/// A circuit breaker: after several failed attempts to connect, calls fail at once until a backoff
/// has passed. The next calls then share one attempt to connect; if it fails, the next backoff is
/// longer.
#[derive(Default)]
pub(super) struct Circuit {
    /// Whether any attempt has failed since the last success. If not, requests need not lock
    /// `state`. Written with the lock of `state` held.
    has_failures: AtomicBool,
    state: Mutex<CircuitState>,
}

#[derive(Default)]
struct CircuitState {
    failures: u32,
    not_before: Option<Instant>,
    /// Why the last attempt to connect failed.
    cause: Option<String>,
}

impl Circuit {
    /// Admits a call, or fails with the remaining backoff.
    pub(super) fn check(&self) -> Result<(), McpErrorKind> {
        if !self.has_failures.load(Ordering::Acquire) {
            return Ok(());
        }
        let state = self.state.lock();
        let until = state.not_before;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            Some(retry_after) => Err(McpErrorKind::KnownDown {
                retry_after,
                cause: state.cause.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Ends the backoff: lets the next call connect, however many attempts have failed.
    pub(super) fn end_pause(&self) {
        if self.has_failures.load(Ordering::Acquire) {
            self.state.lock().not_before = None;
        }
    }

    pub(super) fn succeeded(&self) {
        if !self.has_failures.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        *state = CircuitState::default();
        self.has_failures.store(false, Ordering::Release);
    }

    pub(super) fn failed(&self, error: &McpErrorKind) {
        let mut state = self.state.lock();
        self.has_failures.store(true, Ordering::Release);
        // A failure during the backoff was concurrent with the one that started the backoff; both
        // count as one.
        if state.not_before.is_some_and(|until| Instant::now() < until) {
            return;
        }
        state.failures = state.failures.saturating_add(1);
        state.cause = Some(error.to_string());
        if let Some(more) = state.failures.checked_sub(FAILURE_THRESHOLD) {
            let pause = MIN_BACKOFF_INTERVAL * 2_u32.saturating_pow(more.min(10));
            // The backoff is randomly reduced by up to half, so that workers do not reconnect
            // together.
            let jitter = rand::rng().random_range(0.5..=1.0);
            let max_pause = match error {
                McpErrorKind::Connect(error) if !error.is_timeout() => MAX_CONNECT_BACKOFF_INTERVAL,
                _ => MAX_BACKOFF_INTERVAL,
            };
            state.not_before = Some(Instant::now() + pause.min(max_pause).mul_f64(jitter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_failures_calls_are_rejected_until_the_backoff_ends() {
        let circuit = Circuit::default();
        for _ in 0..FAILURE_THRESHOLD {
            circuit.check().unwrap();
            circuit.failed(&McpErrorKind::StreamClosed);
        }
        let Err(McpErrorKind::KnownDown { retry_after, cause }) = circuit.check() else {
            panic!()
        };
        assert_eq!(cause, Some(McpErrorKind::StreamClosed.to_string()));
        assert!(retry_after <= MIN_BACKOFF_INTERVAL);
        circuit.end_pause();
        circuit.check().unwrap();
        circuit.failed(&McpErrorKind::StreamClosed);
        circuit.check().unwrap_err();
        std::thread::sleep(MIN_BACKOFF_INTERVAL * 2);
        circuit.check().unwrap();
        circuit.failed(&McpErrorKind::StreamClosed);
        circuit.check().unwrap_err();
        circuit.succeeded();
        circuit.check().unwrap();
    }
}
