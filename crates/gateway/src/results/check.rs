//! Checks whether results can be stored, for readiness checks.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_deadline::timeout;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{ResultDirectory, Results, file, remove};

/// Minimum time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that a readiness check waits for the directory.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Size of the file that a check writes, in bytes.
const TRIAL_BYTES: usize = 4 * 1024;

/// Whether results could be stored at the last check.
#[derive(Debug, Default)]
pub(super) struct DirectoryHealth {
    /// Why the directory cannot be written, if it cannot.
    failure: Mutex<Option<String>>,
    /// Locked during a check, also if no one waits for its outcome any more.
    checked_at: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

impl Results {
    /// Returns why results cannot be stored, as far as the last [check](Self::check) has shown.
    pub(crate) fn failure(&self) -> Option<String> {
        self.directory.health.failure.lock().clone()
    }

    /// Checks whether results can be stored, at most once a second, for
    /// [`failure`](Self::failure).
    pub(crate) async fn check(&self) {
        let health = &self.directory.health;
        let Ok(mut checked_at) = Arc::clone(&health.checked_at).try_lock_owned() else {
            return;
        };
        if checked_at.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return;
        }
        let directory = self.directory.clone();
        let trial = spawn_blocking(move || {
            let written = directory.try_write();
            *checked_at = Some(Instant::now());
            written
        });
        let written = match timeout(CHECK_TIMEOUT, trial).await {
            Ok(Ok(written)) => written,
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the file system does not respond",
            )),
        };
        let failure = written.err().map(|error| {
            let path = self.directory.path.display();
            format!("results cannot be stored in '{path}': {error}")
        });
        let mut known = health.failure.lock();
        if let Some(failure) = failure.as_ref().filter(|_| known.is_none()) {
            tracing::error!(error = failure, "Large results of tools cannot be stored");
        }
        *known = failure;
    }
}

impl ResultDirectory {
    /// Creates the directory if necessary, and writes and removes a file there.
    fn try_write(&self) -> io::Result<()> {
        self.create()?;
        let name = Uuid::new_v4().simple().to_string() + file::UNFINISHED_SUFFIX;
        let path = self.path.join(name);
        let mut trial = file::create(&path)?;
        let written = trial.write_all(&[b' '; TRIAL_BYTES]);
        remove(&path)?;
        written
    }
}
