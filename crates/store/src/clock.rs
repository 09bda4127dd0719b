//! Determines the age of records, although the system clock can be wrong.

mod history;
#[cfg(test)]
mod tests;

use std::fs;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::{StoreError, Timestamp, ToolCallRecord};
use rustix::time::{ClockId, clock_gettime};

use crate::database::Database;
pub use history::{ClockHistory, ClockRange};
use history::{MAX_RECORD_DELAY_MS, Reading};

/// Maximum time between two stored readings of a process that writes records.
const READING_INTERVAL: Duration = Duration::from_secs(600);
/// Number of attempts to store a reading while other processes store theirs.
const MAX_ATTEMPTS: u32 = 20;
/// Change of the system clock for which a reading is stored at once, in milliseconds.
const MAX_UNNOTICED_CHANGE_MS: i64 = 60 * 1_000;

/// Identifies the boot of this machine, and the clock namespace of this process: the uptimes of two
/// readings can be compared only if both have the same id.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    match boot {
        Ok(boot) => format!("{} {}", boot.trim(), namespace.display()),
        // The readings of this process cannot be compared with the readings of other processes.
        Err(_) => format!("{:032x}", rand::random::<u128>()),
    }
});

impl Reading {
    fn now() -> Self {
        let uptime = clock_gettime(ClockId::Boottime);
        Self {
            boot: BOOT.clone(),
            uptime: uptime.tv_sec * 1_000 + uptime.tv_nsec / 1_000_000,
            wall: Timestamp::now().as_millis(),
        }
    }
}

/// Stores readings of the system clock in the database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StoreClock {
    database: Database,
    stored: Arc<Mutex<Option<StoredReading>>>,
}

/// The last reading that this process has stored, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct StoredReading {
    uptime: i64,
    wall: i64,
    /// The earliest and the latest time of the records that were added since the stored reading.
    earliest: i64,
    latest: i64,
}

impl StoredReading {
    fn new(now: &Reading, earliest: i64, latest: i64) -> Self {
        Self {
            uptime: now.uptime,
            wall: now.wall,
            earliest,
            latest,
        }
    }

    /// Returns whether records with these times can be written without first storing a reading.
    fn covers(&self, now: &Reading, earliest: i64, latest: i64) -> bool {
        let passed = now.uptime.saturating_sub(self.uptime);
        let expected = self.wall.saturating_add(passed);
        let change = now.wall.saturating_sub(expected).abs();
        passed < millis(READING_INTERVAL)
            && change <= MAX_UNNOTICED_CHANGE_MS
            && earliest >= self.earliest.min(now.wall - MAX_RECORD_DELAY_MS)
            && latest <= self.latest.max(now.wall + MAX_UNNOTICED_CHANGE_MS)
    }
}

impl ClockHistory {
    /// Adds a reading, and the times of records that are written now and began at another time.
    /// Returns the result of [`add`](Self::add).
    fn add_with(&mut self, now: &Reading, earliest: i64, latest: i64) -> Option<i64> {
        let change = self.add(now);
        if earliest < now.wall - MAX_RECORD_DELAY_MS {
            self.add_time(earliest);
        }
        if latest > now.wall + MAX_UNNOTICED_CHANGE_MS {
            self.add_time(latest);
        }
        change
    }
}

impl StoreClock {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            stored: Arc::default(),
        }
    }

    /// Stores a reading, and returns all readings of the store.
    ///
    /// # Errors
    /// `unavailable` if the reading cannot be stored.
    pub(crate) async fn read(&self) -> Result<ClockHistory, StoreError> {
        self.store(Reading::now(), None).await
    }

    /// Stores a reading if the times of these records cannot be related to the last stored reading.
    /// Called before the records are written.
    ///
    /// # Errors
    /// `unavailable` if a reading cannot be stored.
    pub(crate) async fn note<'a>(
        &self,
        calls: impl Iterator<Item = &'a ToolCallRecord>,
    ) -> Result<(), StoreError> {
        let now = Reading::now();
        let (mut earliest, mut latest) = (now.wall, now.wall);
        for call in calls {
            let began = call.id.creation_time().as_millis();
            earliest = earliest.min(began);
            latest = latest.max(began);
        }
        let stored = *self.stored.lock();
        if stored.is_some_and(|stored| stored.covers(&now, earliest, latest)) {
            return Ok(());
        }
        self.store(now, Some((earliest, latest))).await.map(drop)
    }

    async fn store(
        &self,
        now: Reading,
        times: Option<(i64, i64)>,
    ) -> Result<ClockHistory, StoreError> {
        let (earliest, latest) = times.unwrap_or((now.wall, now.wall));
        for _ in 0..MAX_ATTEMPTS {
            let stored = self.load().await?;
            let mut history = stored.as_deref().map(parse).unwrap_or_default();
            let change = history.add_with(&now, earliest, latest);
            if !self.replace(stored, &history).await? {
                continue; // Another process has stored a reading.
            }
            if let Some(change) = change {
                tracing::warn!(
                    seconds = change.unsigned_abs() / 1_000,
                    forward = change > 0,
                    "The system clock was set, or the machine was off: this time does not count \
                    toward the age of records"
                );
            }
            *self.stored.lock() = Some(StoredReading::new(&now, earliest, latest));
            return Ok(history);
        }
        Err(StoreError::unavailable(
            "the readings of the system clock are changed by too many processes",
        ))
    }

    async fn load(&self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT json FROM clock WHERE id = 1";
        let row = self.database.read_one(sql, vec![]).await?;
        row.map(|row| row.text("json")).transpose()
    }

    /// Stores the history unless another process has stored one since `stored` was read. Returns
    /// whether the history is stored.
    async fn replace(
        &self,
        stored: Option<String>,
        history: &ClockHistory,
    ) -> Result<bool, StoreError> {
        let json = serde_json::to_string(history).map_err(|error| {
            StoreError::invalid("the readings of the system clock cannot be encoded")
                .with_source(error)
        })?;
        let mut values = vec![json.into()];
        let sql = match stored {
            Some(stored) => {
                values.push(stored.into());
                "UPDATE clock SET json = $1 WHERE id = 1 AND json = $2"
            }
            None => "INSERT INTO clock (id, json) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
        };
        Ok(self.database.write(sql, values).await? == 1)
    }
}

fn parse(json: &str) -> ClockHistory {
    serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::warn!(
            %error,
            "The stored readings of the system clock are damaged: the age of all records counts \
            from now"
        );
        ClockHistory::default()
    })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
