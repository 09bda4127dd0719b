use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_core::store::{StoreError, StoreErrorKind};
use tokio::time::timeout;

use crate::Result;
use crate::sql_store::SqlStore;

/// Minimum time between two checks of the store.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a check of the store. Longer than the time for which a write waits for a lock.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);
/// Size of the row that a check inserts and rolls back, in bytes.
const TRIAL_BYTES: usize = 64 * 1024;

/// The outcome of the latest write to the store, which shows whether the store can be written.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    /// Why the latest write failed; `None` if it succeeded.
    failure: Mutex<Option<WriteFailure>>,
    /// Whether `failure` is set. A successful write reads this flag instead of locking `failure`.
    has_failed: AtomicBool,
    /// The time at which [`SqlStore::check_health`] last checked the store. Locked during a check.
    checked_at: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct WriteFailure {
    message: String,
    failed_at: Instant,
}

impl SqlStore {
    /// Records whether a call could be recorded, for
    /// [`recording_failure`](Self::recording_failure).
    pub(crate) fn note_outcome(&self, outcome: Result<()>) -> Result<()> {
        let StoreHealth {
            failure,
            has_failed,
            ..
        } = &self.health;
        match &outcome {
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::Unavailable | StoreErrorKind::Corrupt
                ) =>
            {
                *failure.lock() = Some(WriteFailure {
                    message: error.to_string(),
                    failed_at: Instant::now(),
                });
                has_failed.store(true, Ordering::Relaxed);
            }
            // An error for an invalid record is ignored, because it does not show that the store
            // has failed.
            Err(_) => {}
            // The failure remains until the spool can write to the database again, because
            // recording the end of a call can succeed even while new calls cannot begin.
            Ok(()) if has_failed.load(Ordering::Relaxed) && !self.has_failed_write() => {
                has_failed.store(false, Ordering::Relaxed);
                *failure.lock() = None;
            }
            Ok(()) => {}
        }
        outcome
    }

    /// Returns why the store cannot be written, if the latest write or [check](Self::check_health)
    /// has failed.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        let failure = self.health.failure.lock();
        failure.as_ref().map(|failure| failure.message.clone())
    }

    /// Makes [`recording_failure`](Self::recording_failure) report that the store does not respond,
    /// until the next write or [check](Self::check_health) succeeds or fails.
    pub fn note_unresponsive(&self) {
        let mut failure = self.health.failure.lock();
        failure.get_or_insert_with(|| WriteFailure {
            message:
                "the store does not respond: another process may have locked it, or its server \
                      cannot be reached"
                    .to_owned(),
            failed_at: Instant::now(),
        });
        self.health.has_failed.store(true, Ordering::Relaxed);
    }

    /// Checks whether the store can be written, for [`recording_failure`](Self::recording_failure).
    /// Without calls, no write would show a failure or a recovery. Checks at most once a second.
    pub async fn check_health(&self) {
        let mut checked_at = self.health.checked_at.lock().await;
        if checked_at.is_some_and(|instant| instant.elapsed() < CHECK_INTERVAL) {
            return;
        }
        let failed_at = self
            .health
            .failure
            .lock()
            .as_ref()
            .map(|failure| failure.failed_at);
        let check_result = match failed_at {
            None => timeout(CHECK_TIMEOUT, self.try_write()).await,
            // Shortly after a failure, there is no check, because its small write may succeed while
            // larger records still fail.
            Some(failed_at) if failed_at.elapsed() < CHECK_INTERVAL => return,
            // The check commits, because only a commit shows that writes succeed again.
            Some(_) => {
                timeout(CHECK_TIMEOUT, async {
                    self.record_clock_reading().await.map(drop)
                })
                .await
            }
        };
        let outcome = check_result.unwrap_or_else(|_| {
            let seconds = CHECK_TIMEOUT.as_secs();
            let message = format!("the store did not respond within {seconds} s");
            Err(StoreError::unavailable(message))
        });
        *checked_at = Some(Instant::now());
        if let Err(error) = self.note_outcome(outcome) {
            tracing::debug!(%error, "The store cannot be written");
        }
    }

    /// Writes a row and rolls the write back. A commit is avoided, because it would have to access
    /// the disk.
    async fn try_write(&self) -> Result<()> {
        self.database.check_disk()?;
        let mut transaction = self.database.begin().await?;
        let sql = "INSERT INTO clock (id, json) VALUES (2, $1)";
        let text = " ".repeat(TRIAL_BYTES);
        transaction.write(sql, vec![text.into()]).await?;
        // Dropping the transaction rolls back the write.
        drop(transaction);
        Ok(())
    }
}
