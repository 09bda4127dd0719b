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

use crate::Result;
use crate::database::Database;
pub use history::{ClockHistory, ClockRange};
use history::{ClockReading, MAX_RECORD_DELAY_MS};

/// Maximum time between two readings of the system clock that a process stores while it writes
/// records.
const READING_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of attempts to store a reading while other processes store readings.
const MAX_ATTEMPTS: u32 = 20;
/// Maximum change of the system clock for which no new reading is stored, in milliseconds.
const MAX_UNNOTICED_CHANGE_MS: i64 = 60 * 1_000;

/// Identifies the boot of this machine and the time namespace of this process. The uptimes of two
/// readings can be compared only if both readings have the same ID.
static BOOT_ID: LazyLock<String> = LazyLock::new(|| {
    let boot_id_file = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    match boot_id_file {
        Ok(boot_id) => format!("{} {}", boot_id.trim(), namespace.display()),
        // Without the boot's ID, a random ID ensures that the readings of this process are never
        // compared with those of other processes.
        Err(_) => format!("{:032x}", rand::random::<u128>()),
    }
});

impl ClockReading {
    fn now() -> Self {
        let uptime = clock_gettime(ClockId::Boottime);
        Self {
            boot_id: BOOT_ID.clone(),
            uptime: uptime.tv_sec * 1_000 + uptime.tv_nsec / 1_000_000,
            wall_time: Timestamp::now().as_millis(),
        }
    }
}

/// Stores readings of the system clock in the database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StoreClock {
    database: Database,
    stored_reading: Arc<Mutex<Option<StoredReading>>>,
}

/// The last reading that this process has stored, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct StoredReading {
    uptime: i64,
    wall_time: i64,
    /// The earliest begin time of the records that the stored history covers; `latest_time` is the
    /// latest begin time.
    earliest_time: i64,
    latest_time: i64,
}

impl StoredReading {
    fn new(now: &ClockReading, earliest_time: i64, latest_time: i64) -> Self {
        Self {
            uptime: now.uptime,
            wall_time: now.wall_time,
            earliest_time,
            latest_time,
        }
    }

    /// Returns whether records whose begin times are between `earliest_time` and `latest_time` can
    /// be written without first storing another reading.
    fn is_sufficient_for(&self, now: &ClockReading, earliest_time: i64, latest_time: i64) -> bool {
        let elapsed_ms = now.uptime.saturating_sub(self.uptime);
        let expected_wall_time = self.wall_time.saturating_add(elapsed_ms);
        let clock_change = now.wall_time.saturating_sub(expected_wall_time).abs();
        elapsed_ms < duration_to_millis(READING_INTERVAL)
            && clock_change <= MAX_UNNOTICED_CHANGE_MS
            && earliest_time >= self.earliest_time.min(now.wall_time - MAX_RECORD_DELAY_MS)
            && latest_time
                <= self
                    .latest_time
                    .max(now.wall_time + MAX_UNNOTICED_CHANGE_MS)
    }
}

impl ClockHistory {
    /// Adds a reading of the clock, and the earliest and the latest begin time of the records that
    /// are about to be written. Returns the change of the system clock, like [`add`](Self::add).
    fn add_with_times(&mut self, now: &ClockReading, earliest: i64, latest: i64) -> Option<i64> {
        let change = self.add(now);
        if earliest < now.wall_time - MAX_RECORD_DELAY_MS {
            self.add_time(earliest);
        }
        if latest > now.wall_time + MAX_UNNOTICED_CHANGE_MS {
            self.add_time(latest);
        }
        change
    }
}

impl StoreClock {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            stored_reading: Arc::default(),
        }
    }

    /// Stores a reading, and returns all readings of the store.
    ///
    /// # Errors
    /// `unavailable` if the reading cannot be stored.
    pub(crate) async fn record_reading(&self) -> Result<ClockHistory> {
        self.store(ClockReading::now(), None).await
    }

    /// Stores a reading of the clock, unless the last stored reading is recent enough for the begin
    /// times of `calls`. Must be called before the records in `calls` are written.
    ///
    /// # Errors
    /// `unavailable` if a reading cannot be stored.
    pub(crate) async fn record_reading_if_due<'a>(
        &self,
        calls: impl Iterator<Item = &'a ToolCallRecord>,
    ) -> Result<()> {
        let now = ClockReading::now();
        let (mut earliest_time, mut latest_time) = (now.wall_time, now.wall_time);
        for call in calls {
            let began_at = call.id.creation_time().as_millis();
            earliest_time = earliest_time.min(began_at);
            latest_time = latest_time.max(began_at);
        }
        let stored_reading = *self.stored_reading.lock();
        if stored_reading
            .is_some_and(|reading| reading.is_sufficient_for(&now, earliest_time, latest_time))
        {
            return Ok(());
        }
        self.store(now, Some((earliest_time, latest_time)))
            .await
            .map(drop)
    }

    async fn store(&self, now: ClockReading, times: Option<(i64, i64)>) -> Result<ClockHistory> {
        let (earliest_time, latest_time) = times.unwrap_or((now.wall_time, now.wall_time));
        for _ in 0..MAX_ATTEMPTS {
            let stored_json = self.load().await?;
            let mut history = stored_json
                .as_deref()
                .map(parse_history)
                .unwrap_or_default();
            let change = history.add_with_times(&now, earliest_time, latest_time);
            if !self.replace(stored_json, &history).await? {
                continue; // Another process has stored a reading, so the history is read again.
            }
            if let Some(change) = change {
                tracing::warn!(
                    seconds = change.unsigned_abs() / 1_000,
                    forward = change > 0,
                    "The system clock was changed, or the machine was off: the time difference \
                    does not count toward the age of records"
                );
            }
            *self.stored_reading.lock() =
                Some(StoredReading::new(&now, earliest_time, latest_time));
            return Ok(history);
        }
        Err(StoreError::unavailable(format!(
            "the reading of the system clock was not stored in {MAX_ATTEMPTS} attempts, because \
            other processes keep storing readings"
        )))
    }

    async fn load(&self) -> Result<Option<String>> {
        let sql = "SELECT json FROM clock WHERE id = 1";
        let row = self.database.read_one(sql, vec![]).await?;
        row.map(|row| row.text("json")).transpose()
    }

    /// Stores the history unless another process has stored one since `stored_json` was read.
    /// Returns whether the history is stored.
    async fn replace(&self, stored_json: Option<String>, history: &ClockHistory) -> Result<bool> {
        let json = serde_json::to_string(history).map_err(|error| {
            StoreError::invalid("the readings of the system clock cannot be encoded")
                .with_source(error)
        })?;
        let mut values = vec![json.into()];
        let sql = match stored_json {
            Some(json) => {
                values.push(json.into());
                "UPDATE clock SET json = $1 WHERE id = 1 AND json = $2"
            }
            None => "INSERT INTO clock (id, json) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
        };
        Ok(self.database.write(sql, values).await? == 1)
    }
}

fn parse_history(json: &str) -> ClockHistory {
    serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::warn!(
            %error,
            "The stored readings of the system clock are damaged: the age of all records counts \
            from now"
        );
        ClockHistory::default()
    })
}

fn duration_to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
