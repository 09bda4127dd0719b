use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::time::Instant;

use crate::mcp::McpErrorKind;

/// After its first crash a server is started again this much later, after each further one
/// twice as much.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// After so many crashes in a row callers do not wait for the next start, they are refused.
const PATIENT_CRASHES: u32 = 3;

/// A server that has run for so long does not crash in a row.
const STABLE: Duration = Duration::from_secs(10);

/// When a server that crashes may be started again.
#[derive(Default)]
pub(super) struct Restarts {
    crashes: Mutex<Crashes>,
}

#[derive(Default)]
struct Crashes {
    in_a_row: u32,
    next_start: Option<Instant>,
}

impl Restarts {
    /// Waits until the server may be started.
    ///
    /// # Errors
    /// [`McpErrorKind::KnownDown`], at once, while the server is known to crash.
    pub(super) async fn wait(&self) -> Result<(), McpErrorKind> {
        let (in_a_row, next_start) = {
            let crashes = self.crashes.lock();
            (crashes.in_a_row, crashes.next_start)
        };
        let Some(next_start) = next_start else {
            return Ok(());
        };
        let retry_after = next_start.saturating_duration_since(Instant::now());
        if in_a_row > PATIENT_CRASHES && !retry_after.is_zero() {
            return Err(McpErrorKind::KnownDown {
                retry_after,
                cause: None,
            });
        }
        tokio::time::sleep_until(next_start).await;
        Ok(())
    }

    /// Takes note of a crash, of a process that had run for `lived`.
    pub(super) fn crashed(&self, lived: Duration) {
        let mut crashes = self.crashes.lock();
        crashes.in_a_row = if lived >= STABLE {
            1
        } else {
            crashes.in_a_row.saturating_add(1)
        };
        let doublings = (crashes.in_a_row - 1).min(16);
        let pause = FIRST_PAUSE
            .saturating_mul(1 << doublings)
            .min(LONGEST_PAUSE);
        // Up to half of it off, so that many clients do not start at the same moment.
        let pause = pause.mul_f64(rand::rng().random_range(0.5..=1.0));
        crashes.next_start = Some(Instant::now() + pause);
    }

    /// Forgets the last crash, for it says nothing about the server: some end when they are asked
    /// something before the handshake.
    pub(super) fn forgive(&self) {
        let mut crashes = self.crashes.lock();
        crashes.in_a_row = crashes.in_a_row.saturating_sub(1);
        crashes.next_start = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_then_callers_are_refused_at_once() {
        let restarts = Restarts::default();
        restarts.wait().await.unwrap();
        for (crash, longest) in [(1, 100), (2, 200), (3, 400)] {
            restarts.crashed(Duration::ZERO);
            let before = Instant::now();
            restarts.wait().await.unwrap();
            let waited = before.elapsed().as_millis();
            assert!(
                (longest / 2..=longest + 1).contains(&waited),
                "{crash}: {waited}"
            );
        }
        restarts.crashed(Duration::ZERO);
        let Err(McpErrorKind::KnownDown { retry_after, .. }) = restarts.wait().await else {
            panic!()
        };
        assert!(retry_after <= Duration::from_millis(800));
        // Half-open: one try is let through when the pause is over.
        tokio::time::sleep(retry_after).await;
        restarts.wait().await.unwrap();
        for _ in 0..100 {
            restarts.crashed(Duration::ZERO);
        }
        let Err(McpErrorKind::KnownDown { retry_after, .. }) = restarts.wait().await else {
            panic!()
        };
        assert!(retry_after <= LONGEST_PAUSE);
        // A crash after a good while is the first of a new row.
        restarts.crashed(STABLE);
        restarts.wait().await.unwrap();
        restarts.crashed(Duration::ZERO);
        restarts.forgive();
        let before = Instant::now();
        restarts.wait().await.unwrap();
        assert!(before.elapsed().is_zero());
    }
}
