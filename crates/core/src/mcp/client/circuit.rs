use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt;

use crate::mcp::McpErrorKind;

/// Failures in a row after which a server counts as down.
const TRIP: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Keeps calls from waiting for a server that is known to be down: after some failed
/// attempts to connect, one attempt is made every now and then, and all other calls are
/// refused at once.
#[derive(Default)]
pub(super) struct Circuit {
    /// There was a failure since the last success: only then `state` says anything, and
    /// only then a request looks at it. Written under its lock.
    troubled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failures: u32,
    not_before: Option<Instant>,
}

impl Circuit {
    /// Lets an attempt through, or says when the next one may be made. One that is let
    /// through although the server is down keeps others away for as long as `trial`.
    pub(super) fn check(&self, trial: Duration) -> Result<(), McpErrorKind> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state.lock();
        let now = Instant::now();
        match state.not_before {
            Some(until) if now < until => Err(McpErrorKind::KnownDown {
                retry_after: until - now,
            }),
            Some(_) => {
                state.not_before = Some(now + trial);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn succeeded(&self) {
        if !self.troubled.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        *state = State::default();
        self.troubled.store(false, Ordering::Release);
    }

    pub(super) fn failed(&self) {
        let mut state = self.state.lock();
        self.troubled.store(true, Ordering::Release);
        state.failures = state.failures.saturating_add(1);
        if let Some(more) = state.failures.checked_sub(TRIP) {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(more.min(10));
            // Between half and all of it, so that workers do not come back all at once.
            let jitter = rand::rng().random_range(0.5..=1.0);
            let pause = pause.min(LONGEST_PAUSE).mul_f64(jitter);
            state.not_before = Some(Instant::now() + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_failures_one_attempt_at_a_time_is_let_through() {
        let circuit = Circuit::default();
        let trial = Duration::from_secs(60);
        for _ in 0..TRIP {
            circuit.check(trial).unwrap();
            circuit.failed();
        }
        let Err(McpErrorKind::KnownDown { retry_after }) = circuit.check(trial) else {
            panic!()
        };
        assert!(retry_after <= FIRST_PAUSE);
        std::thread::sleep(FIRST_PAUSE);
        circuit.check(trial).unwrap();
        circuit.check(trial).unwrap_err();
        circuit.succeeded();
        circuit.check(trial).unwrap();
        circuit.check(trial).unwrap();
    }
}
