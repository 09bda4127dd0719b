use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt;

use crate::McpErrorKind;

/// Number of consecutive failed attempts after which further connection attempts back off.
const FAILURE_THRESHOLD: u32 = 3;
const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(500);
const MAX_BACKOFF_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum backoff while the server refuses connections. The backoff is short, because a refused
/// attempt takes hardly any time, and calls should reach a restarted server soon.
const MAX_CONNECT_BACKOFF_INTERVAL: Duration = Duration::from_secs(2);

/// A circuit breaker: after several failed attempts to connect, calls fail at once until a backoff
/// has passed. The next calls then share one attempt to connect. If that attempt fails, the next
/// backoff is longer.
#[derive(Default)]
pub(super) struct CircuitBreaker {
    /// Whether any connection attempt has failed since the last success. If none has, requests do
    /// not lock `state`. The flag is written only while `state` is locked.
    has_failures: AtomicBool,
    state: Mutex<CircuitState>,
}

#[derive(Default)]
struct CircuitState {
    /// The number of consecutive failed connection attempts.
    failure_count: u32,
    /// The time until which calls fail at once, without a connection attempt.
    backoff_end: Option<Instant>,
    /// Why the last attempt to connect failed.
    cause: Option<String>,
}

impl CircuitBreaker {
    /// Fails with the remaining backoff if calls must not connect yet.
    pub(super) fn check(&self) -> Result<(), McpErrorKind> {
        if !self.has_failures.load(Ordering::Acquire) {
            return Ok(());
        }
        let state = self.state.lock();
        let now = Instant::now();
        match state.backoff_end.filter(|end| now < *end) {
            Some(backoff_end) => Err(McpErrorKind::KnownDown {
                retry_after: backoff_end - now,
                cause: state.cause.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Ends the backoff, so that the next call can connect regardless of the number of failed
    /// attempts.
    pub(super) fn end_backoff(&self) {
        if self.has_failures.load(Ordering::Acquire) {
            self.state.lock().backoff_end = None;
        }
    }

    pub(super) fn record_success(&self) {
        if !self.has_failures.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        *state = CircuitState::default();
        self.has_failures.store(false, Ordering::Release);
    }

    pub(super) fn record_failure(&self, error: &McpErrorKind) {
        let mut state = self.state.lock();
        self.has_failures.store(true, Ordering::Release);
        // A failure during the backoff is not counted. The failed attempt began before the backoff,
        // concurrently with the attempt whose failure started the backoff.
        if state.backoff_end.is_some_and(|end| Instant::now() < end) {
            return;
        }
        state.failure_count = state.failure_count.saturating_add(1);
        state.cause = Some(error.to_string());
        if let Some(doubling_count) = state.failure_count.checked_sub(FAILURE_THRESHOLD) {
            let backoff = MIN_BACKOFF_INTERVAL * 2_u32.saturating_pow(doubling_count.min(10));
            // The backoff is randomly reduced by up to half, so that many workers do not reconnect
            // at the same time.
            let jitter = rand::rng().random_range(0.5..=1.0);
            let max_backoff = match error {
                McpErrorKind::ConnectionFailed(error) if !error.is_timeout() => {
                    MAX_CONNECT_BACKOFF_INTERVAL
                }
                _ => MAX_BACKOFF_INTERVAL,
            };
            state.backoff_end = Some(Instant::now() + backoff.min(max_backoff).mul_f64(jitter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_failures_calls_are_rejected_until_the_backoff_ends() {
        let circuit = CircuitBreaker::default();
        for _ in 0..FAILURE_THRESHOLD {
            circuit.check().unwrap();
            circuit.record_failure(&McpErrorKind::StreamClosed);
        }
        let Err(McpErrorKind::KnownDown { retry_after, cause }) = circuit.check() else {
            panic!()
        };
        assert_eq!(cause, Some(McpErrorKind::StreamClosed.to_string()));
        assert!(retry_after <= MIN_BACKOFF_INTERVAL);
        circuit.end_backoff();
        circuit.check().unwrap();
        circuit.record_failure(&McpErrorKind::StreamClosed);
        circuit.check().unwrap_err();
        std::thread::sleep(MIN_BACKOFF_INTERVAL * 2);
        circuit.check().unwrap();
        circuit.record_failure(&McpErrorKind::StreamClosed);
        circuit.check().unwrap_err();
        circuit.record_success();
        circuit.check().unwrap();
    }
}
