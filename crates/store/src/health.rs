use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_core::store::{StoreError, StoreErrorKind};
use tokio::time::timeout;

use crate::sql_store::SqlStore;

/// Minimum time between two checks of the store.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum duration of a check of the store: longer than a write waits for a lock.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);
/// Size of the row that a check inserts and rolls back, in bytes.
const TRIAL_BYTES: usize = 64 * 1024;

/// Whether the store can be written, as the latest write has shown.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Why the latest write failed, if it failed.
    failure: Mutex<Option<Failure>>,
    /// Whether `failure` is set, so that a successful write needs no lock.
    has_failed: AtomicBool,
    /// When [`SqlStore::check_health`] last checked the store. Locked during a check.
    checked_at: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Failure {
    message: String,
    at: Instant,
}

impl SqlStore {
    /// Records whether a call could be recorded, for
    /// [`recording_failure`](Self::recording_failure).
    pub(crate) fn note_outcome(&self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let Health {
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
                *failure.lock() = Some(Failure {
                    message: error.to_string(),
                    at: Instant::now(),
                });
                has_failed.store(true, Ordering::Relaxed);
            }
            // An error for an invalid record shows nothing about the store.
            Err(_) => {}
            // Recording the end of a call can succeed while new calls cannot begin.
            Ok(()) if has_failed.load(Ordering::Relaxed) && !self.is_stuck() => {
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
    /// until a write or a [check](Self::check_health) has an outcome.
    pub fn note_unresponsive(&self) {
        let mut failure = self.health.failure.lock();
        failure.get_or_insert_with(|| Failure {
            message:
                "the store does not respond: another process may have locked it, or its server \
                      cannot be reached"
                    .to_owned(),
            at: Instant::now(),
        });
        self.health.has_failed.store(true, Ordering::Relaxed);
    }

    /// Checks whether the store can be written, for [`recording_failure`](Self::recording_failure).
    /// Without calls, no write would show a failure or a recovery. Checks at most once a second.
    pub async fn check_health(&self) {
        let mut checked_at = self.health.checked_at.lock().await;
        if checked_at.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return;
        }
        let failed_at = self
            .health
            .failure
            .lock()
            .as_ref()
            .map(|failure| failure.at);
        let checked = match failed_at {
            None => timeout(CHECK_TIMEOUT, self.try_write()).await,
            // Larger records may fail while this small write succeeds.
            Some(at) if at.elapsed() < CHECK_INTERVAL => return,
            // Only a commit shows that writes succeed again.
            Some(_) => timeout(CHECK_TIMEOUT, async { self.clock().await.map(drop) }).await,
        };
        let outcome =
            checked.unwrap_or_else(|_| Err(StoreError::unavailable("the store does not respond")));
        *checked_at = Some(Instant::now());
        if let Err(error) = self.note_outcome(outcome) {
            tracing::debug!(%error, "The store cannot be written");
        }
    }

    /// Writes without a commit, which costs no access to the disk.
    async fn try_write(&self) -> Result<(), StoreError> {
        self.database.try_disk()?;
        let mut transaction = self.database.begin().await?;
        let sql = "INSERT INTO clock (id, json) VALUES (2, $1)";
        let row = " ".repeat(TRIAL_BYTES);
        transaction.write(sql, vec![row.into()]).await?;
        // Dropping the transaction rolls back the write.
        drop(transaction);
        Ok(())
    }
}
