use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::time::Instant;

use crate::McpErrorKind;

/// Backoff after the first crash; doubles with each further crash.
const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Maximum backoff of a program that responds after each start: its callers wait for the restart.
const MAX_ANSWERING_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of consecutive starts without a response for which callers wait; after more such
/// starts, calls fail until the backoff has elapsed.
const MAX_AWAITED_CRASHES: u32 = 3;

/// A crash after this run time starts a new series of crashes.
const STABLE_RUN_TIME: Duration = Duration::from_secs(10);

/// Minimum run time after which a program that has responded counts as stable.
const STABLE_RUN_TIME_AFTER_RESPONSE: Duration = Duration::from_secs(1);

/// Decides when a server that crashed may be started again.
#[derive(Default)]
pub(super) struct Restarts {
    crashes: Mutex<Crashes>,
}

#[derive(Default)]
struct Crashes {
    in_a_row: u32,
    /// Number of consecutive starts without a response.
    failed_starts: u32,
    /// Whether the program responded after the last successful start, so that a restart may
    /// succeed.
    has_answered: bool,
    next_start: Option<Instant>,
}

impl Restarts {
    /// Waits until the server may be started. Callers wait for a program that responds after each
    /// start, because its backoff is short, however often the program ends.
    ///
    /// # Errors
    /// [`McpErrorKind::KnownDown`], at once, if the program keeps ending before it responds.
    pub(super) async fn wait(&self) -> Result<(), McpErrorKind> {
        let (failed_starts, next_start) = {
            let crashes = self.crashes.lock();
            (crashes.failed_starts, crashes.next_start)
        };
        let Some(next_start) = next_start else {
            return Ok(());
        };
        let retry_after = next_start.saturating_duration_since(Instant::now());
        if failed_starts > MAX_AWAITED_CRASHES && !retry_after.is_zero() {
            return Err(McpErrorKind::KnownDown {
                retry_after,
                cause: None,
            });
        }
        tokio::time::sleep_until(next_start).await;
        Ok(())
    }

    /// Records that a process ended after running for `lived`, with or without a response.
    pub(super) fn crashed(&self, lived: Duration, has_answered: bool) {
        let mut crashes = self.crashes.lock();
        let (stable, longest) = match has_answered {
            true => (STABLE_RUN_TIME_AFTER_RESPONSE, MAX_ANSWERING_PAUSE),
            false => (STABLE_RUN_TIME, MAX_PAUSE),
        };
        let is_first = lived >= stable;
        let more = |count: u32| if is_first { 1 } else { count.saturating_add(1) };
        crashes.in_a_row = more(crashes.in_a_row);
        if has_answered {
            crashes.failed_starts = 0;
            crashes.has_answered = true;
        } else {
            crashes.failed_starts = more(crashes.failed_starts);
        }
        // Crashes after a response and failed starts have separate backoffs.
        let row = match has_answered {
            true => crashes.in_a_row,
            false => crashes.failed_starts,
        };
        let doublings = row.saturating_sub(1).min(16);
        let pause = MIN_BACKOFF_INTERVAL
            .saturating_mul(1 << doublings)
            .min(longest);
        // Reduced by up to half, so that many clients do not start servers at the same time.
        let pause = pause.mul_f64(rand::rng().random_range(0.5..=1.0));
        crashes.next_start = Some(Instant::now() + pause);
    }

    /// Returns whether a program whose start failed should be started again at once, because the
    /// program has responded recently.
    pub(super) fn may_start_again(&self) -> bool {
        let crashes = self.crashes.lock();
        crashes.has_answered && crashes.failed_starts <= MAX_AWAITED_CRASHES
    }

    /// Discards the last crash: some servers exit when they receive a request before the handshake.
    pub(super) fn undo_crash(&self) {
        let mut crashes = self.crashes.lock();
        crashes.in_a_row = crashes.in_a_row.saturating_sub(1);
        crashes.failed_starts = crashes.failed_starts.saturating_sub(1);
        crashes.next_start = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_then_callers_are_rejected_at_once() {
        let restarts = Restarts::default();
        restarts.wait().await.unwrap();
        for (crash, longest) in [(1, 100), (2, 200), (3, 400)] {
            restarts.crashed(Duration::ZERO, false);
            let before = Instant::now();
            restarts.wait().await.unwrap();
            let waited = before.elapsed().as_millis();
            assert!(
                (longest / 2..=longest + 1).contains(&waited),
                "{crash}: {waited}"
            );
        }
        restarts.crashed(Duration::ZERO, false);
        let Err(McpErrorKind::KnownDown { retry_after, .. }) = restarts.wait().await else {
            panic!()
        };
        assert!(retry_after <= Duration::from_millis(800));
        // Half-open: one attempt is allowed after the backoff.
        tokio::time::sleep(retry_after).await;
        restarts.wait().await.unwrap();
        for _ in 0..100 {
            restarts.crashed(Duration::ZERO, false);
        }
        let Err(McpErrorKind::KnownDown { retry_after, .. }) = restarts.wait().await else {
            panic!()
        };
        assert!(retry_after <= MAX_PAUSE);
        // A crash after a long run time starts a new series.
        restarts.crashed(STABLE_RUN_TIME, false);
        restarts.wait().await.unwrap();
        restarts.crashed(Duration::ZERO, false);
        restarts.undo_crash();
        let before = Instant::now();
        restarts.wait().await.unwrap();
        assert!(before.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_wait_for_a_server_that_works_between_restarts() {
        let restarts = Restarts::default();
        for lived in [Duration::ZERO, STABLE_RUN_TIME_AFTER_RESPONSE] {
            for _ in 0..50 {
                restarts.crashed(lived, true);
                let before = Instant::now();
                restarts.wait().await.unwrap();
                assert!(before.elapsed() <= MAX_ANSWERING_PAUSE * 2);
                assert!(restarts.may_start_again());
            }
        }
        let before = Instant::now();
        restarts.wait().await.unwrap();
        assert!(
            before.elapsed() <= MIN_BACKOFF_INTERVAL,
            "it had run for a while"
        );
        // After several starts without a response, the program is not started again at once.
        for _ in 0..MAX_AWAITED_CRASHES {
            restarts.crashed(Duration::ZERO, false);
            assert!(restarts.may_start_again());
        }
        restarts.crashed(Duration::ZERO, false);
        assert!(!restarts.may_start_again());
        restarts.wait().await.unwrap_err();
    }
}
