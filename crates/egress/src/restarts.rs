use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::time::Instant;

const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Maximum number of consecutive failures after which callers still wait for the server. A failure
/// is a failed start of a program, or a refused connection of a server that has never responded.
/// After more failures, calls fail until the backoff has elapsed.
const MAX_AWAITED_CRASHES: u32 = 3;

/// Minimum run time after which a crash begins a new series of crashes, because the program was
/// stable until then.
const STABLE_RUN_TIME: Duration = Duration::from_secs(10);

/// Minimum run time after which a program that has responded counts as stable.
const STABLE_RUN_TIME_AFTER_RESPONSE: Duration = Duration::from_secs(1);

/// Error for a server that has failed so often in a row that callers no longer wait for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has failed repeatedly and is not started again yet")]
pub struct KnownDown {
    /// The time that remains until the server may be started again.
    pub retry_after: Duration,
}

/// How fast callers try again to reach a server that restarts.
#[derive(Debug, Clone, Copy)]
pub struct RestartPace {
    /// Backoff after the first crash; doubles with each further crash.
    min_backoff: Duration,
    /// Maximum backoff of a server that responds after each start. Short, because callers wait for
    /// such a server.
    max_responding_backoff: Duration,
    /// Maximum number of consecutive failed starts for which callers wait for a server that has
    /// responded before.
    max_awaited_crashes: u32,
}

impl RestartPace {
    /// The pace for a program that this process starts. Slow, because starting a program is
    /// expensive.
    pub const STDIO: Self = Self {
        min_backoff: Duration::from_millis(100),
        max_responding_backoff: Duration::from_secs(1),
        max_awaited_crashes: MAX_AWAITED_CRASHES,
    };

    /// The pace for a server that this process does not start. Fast, because a refused connection
    /// costs hardly anything. A caller waits for 2 to 4 seconds in total.
    pub const HTTP: Self = Self {
        min_backoff: Duration::from_millis(10),
        max_responding_backoff: Duration::from_millis(200),
        max_awaited_crashes: 24,
    };
}

/// Decides when a server that crashed may be started again, or when to connect again to a server
/// that refuses connections because it may be restarting. Callers wait for a server that has
/// responded before.
pub struct Restarts {
    pace: RestartPace,
    /// Whether the server has responded and has not failed since. If `true`, requests need not lock
    /// `crashes`.
    is_healthy: AtomicBool,
    crashes: Mutex<CrashRecord>,
}

#[derive(Default)]
struct CrashRecord {
    /// Number of crashes in a row.
    consecutive_crashes: u32,
    /// Number of consecutive starts without a response.
    failed_starts: u32,
    /// Whether the program responded after the last successful start. If so, a restart is likely to
    /// succeed.
    has_responded: bool,
    next_start_at: Option<Instant>,
}

impl Restarts {
    /// Creates the record of a server without crashes.
    #[must_use]
    pub fn new(pace: RestartPace) -> Self {
        Self {
            pace,
            is_healthy: AtomicBool::new(false),
            crashes: Mutex::default(),
        }
    }

    /// Records that the server has refused a connection, and waits until another attempt is due.
    /// Refusals of concurrent callers count as one refusal. Returns `false`, without waiting, if
    /// the server has refused too many consecutive connections.
    pub async fn wait_to_reconnect(&self) -> bool {
        {
            let mut crashes = self.crashes.lock();
            self.is_healthy.store(false, Ordering::Release);
            let now = Instant::now();
            if crashes.next_start_at.is_none_or(|start_at| start_at <= now) {
                crashes.failed_starts = crashes.failed_starts.saturating_add(1);
                let max = self.pace.max_responding_backoff;
                crashes.next_start_at = Some(now + self.backoff(crashes.failed_starts, max));
            }
            if crashes.failed_starts > self.max_awaited_failures(&crashes) {
                return false;
            }
        }
        self.wait().await.is_ok()
    }

    /// Records that the server has responded.
    pub fn note_response(&self) {
        if !self.is_healthy.load(Ordering::Acquire) {
            let mut crashes = self.crashes.lock();
            *crashes = CrashRecord {
                has_responded: true,
                ..CrashRecord::default()
            };
            self.is_healthy.store(true, Ordering::Release);
        }
    }

    /// Returns the number of consecutive failed starts for which callers wait.
    fn max_awaited_failures(&self, crashes: &CrashRecord) -> u32 {
        if crashes.has_responded {
            self.pace.max_awaited_crashes
        } else {
            MAX_AWAITED_CRASHES
        }
    }

    /// Returns the backoff after `count` failures, reduced by up to half, so that many clients do not
    /// start or reach servers at the same time.
    fn backoff(&self, count: u32, max_backoff: Duration) -> Duration {
        let doublings = count.saturating_sub(1).min(16);
        let backoff = self.pace.min_backoff.saturating_mul(1 << doublings);
        let jitter = rand::rng().random_range(0.5..=1.0);
        backoff.min(max_backoff).mul_f64(jitter)
    }

    /// Waits until the server may be started. Callers wait for a program that responds after each
    /// start, because its backoff is short, however often the program ends.
    ///
    /// # Errors
    /// [`KnownDown`], at once, if the program keeps ending before it responds.
    pub async fn wait(&self) -> Result<(), KnownDown> {
        let (is_awaited, next_start_at) = {
            let crashes = self.crashes.lock();
            let is_awaited = crashes.failed_starts <= self.max_awaited_failures(&crashes);
            (is_awaited, crashes.next_start_at)
        };
        let Some(next_start_at) = next_start_at else {
            return Ok(());
        };
        let retry_after = next_start_at.saturating_duration_since(Instant::now());
        if !is_awaited && !retry_after.is_zero() {
            return Err(KnownDown { retry_after });
        }
        tokio::time::sleep_until(next_start_at).await;
        Ok(())
    }

    /// Records that a process ended after running for `run_time`, and whether it had responded.
    pub fn record_crash(&self, run_time: Duration, has_responded: bool) {
        let mut crashes = self.crashes.lock();
        let (stable_run_time, max_backoff) = if has_responded {
            (
                STABLE_RUN_TIME_AFTER_RESPONSE,
                self.pace.max_responding_backoff,
            )
        } else {
            (STABLE_RUN_TIME, MAX_BACKOFF)
        };
        let starts_new_series = run_time >= stable_run_time;
        if starts_new_series {
            (crashes.consecutive_crashes, crashes.failed_starts) = (0, 0);
        }
        crashes.consecutive_crashes = crashes.consecutive_crashes.saturating_add(1);
        if has_responded {
            crashes.failed_starts = 0;
            crashes.has_responded = true;
        } else {
            crashes.failed_starts = crashes.failed_starts.saturating_add(1);
        }
        // The backoff depends either on the crashes after a response, or on the failed starts,
        // which are counted separately.
        let count = if has_responded {
            crashes.consecutive_crashes
        } else {
            crashes.failed_starts
        };
        crashes.next_start_at = Some(Instant::now() + self.backoff(count, max_backoff));
    }

    /// Returns whether a program whose start failed should be started again at once, because the
    /// program has responded recently.
    #[must_use]
    pub fn may_start_again(&self) -> bool {
        let crashes = self.crashes.lock();
        crashes.has_responded && crashes.failed_starts <= self.max_awaited_failures(&crashes)
    }

    /// Discards the last recorded crash, for a server that exits when it receives a request before
    /// the handshake.
    pub fn undo_crash(&self) {
        let mut crashes = self.crashes.lock();
        crashes.consecutive_crashes = crashes.consecutive_crashes.saturating_sub(1);
        crashes.failed_starts = crashes.failed_starts.saturating_sub(1);
        crashes.next_start_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_then_callers_are_rejected_at_once() {
        let restarts = Restarts::new(RestartPace::STDIO);
        restarts.wait().await.unwrap();
        for (crash, max_millis) in [(1, 100), (2, 200), (3, 400)] {
            restarts.record_crash(Duration::ZERO, false);
            let before = Instant::now();
            restarts.wait().await.unwrap();
            let waited = before.elapsed().as_millis();
            let expected = max_millis / 2..=max_millis + 1;
            assert!(expected.contains(&waited), "{crash}: {waited}");
        }
        restarts.record_crash(Duration::ZERO, false);
        let Err(KnownDown { retry_after }) = restarts.wait().await else {
            panic!()
        };
        assert!(retry_after <= Duration::from_millis(800));
        // After the backoff, one attempt is allowed (half-open).
        tokio::time::sleep(retry_after).await;
        restarts.wait().await.unwrap();
        for _ in 0..100 {
            restarts.record_crash(Duration::ZERO, false);
        }
        let Err(KnownDown { retry_after }) = restarts.wait().await else {
            panic!()
        };
        assert!(retry_after <= MAX_BACKOFF);
        // A crash after a long run time starts a new series.
        restarts.record_crash(STABLE_RUN_TIME, false);
        restarts.wait().await.unwrap();
        restarts.record_crash(Duration::ZERO, false);
        restarts.undo_crash();
        let before = Instant::now();
        restarts.wait().await.unwrap();
        assert!(before.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_wait_for_a_server_that_works_between_restarts() {
        let restarts = Restarts::new(RestartPace::STDIO);
        for run_time in [Duration::ZERO, STABLE_RUN_TIME_AFTER_RESPONSE] {
            for _ in 0..50 {
                restarts.record_crash(run_time, true);
                let before = Instant::now();
                restarts.wait().await.unwrap();
                assert!(before.elapsed() <= RestartPace::STDIO.max_responding_backoff * 2);
                assert!(restarts.may_start_again());
            }
        }
        let before = Instant::now();
        restarts.wait().await.unwrap();
        assert!(
            before.elapsed() <= RestartPace::STDIO.min_backoff,
            "it had run for a while"
        );
        // After several starts without a response, the program is not started again at once.
        for _ in 0..MAX_AWAITED_CRASHES {
            restarts.record_crash(Duration::ZERO, false);
            assert!(restarts.may_start_again());
        }
        restarts.record_crash(Duration::ZERO, false);
        assert!(!restarts.may_start_again());
        restarts.wait().await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn callers_wait_a_few_seconds_for_a_server_that_refuses_connections() {
        let restarts = Restarts::new(RestartPace::HTTP);
        // A server that has never responded is probably not running.
        let started_at = Instant::now();
        while restarts.wait_to_reconnect().await {}
        let took = started_at.elapsed();
        assert!(took <= Duration::from_millis(100), "{took:?}");
        restarts.note_response();
        let started_at = Instant::now();
        let caller = async || {
            let mut attempts = 0;
            while restarts.wait_to_reconnect().await {
                attempts += 1;
            }
            attempts
        };
        // Refusals of concurrent callers count as one refusal.
        let (first, second) = tokio::join!(caller(), caller());
        assert_eq!((first, second), (24, 24));
        let waited = started_at.elapsed();
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        assert!(waited <= Duration::from_millis(4300), "{waited:?}");
        assert!(!restarts.wait_to_reconnect().await);
        restarts.note_response();
        assert!(restarts.wait_to_reconnect().await);
    }
}
