use std::collections::BTreeMap;
use std::time::Duration;

use pillion_core::store::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum change of the system clock that counts as a correction, in milliseconds.
const MAX_DRIFT_MS: i64 = 5 * 60 * 1_000;
/// Maximum time after the last stored reading at which a record can still have been written with
/// that reading, in milliseconds. Readings are stored at least every ten minutes.
const READING_LAG_MS: i64 = 30 * 60 * 1_000;
/// Maximum time between two readings of one machine that counts as running time if several machines
/// use the store, in milliseconds.
const MAX_READING_GAP_MS: i64 = 20 * 60 * 1_000;
/// Maximum delay between the begin time of a call, which is the time of its record, and the write
/// of the record without a reading, in milliseconds.
pub(super) const MAX_RECORD_DELAY_MS: i64 = 60 * 60 * 1_000;
/// How long a change of the system clock lasts before it counts as intended.
const SETTLING_TIME: Duration = Duration::from_secs(600);
const MAX_BOOTS: usize = 64;
const MAX_SPANS: usize = 256;

/// A reading of the system clock and of the uptime at one moment, in milliseconds.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// Identifies the boot since which `uptime` counts.
    pub(super) boot: String,
    /// The time since the boot, which users cannot change.
    pub(super) uptime: i64,
    /// The time of the system clock, in milliseconds since 1970.
    pub(super) wall: i64,
}

/// The readings of the system clock during the life of a store.
///
/// The system clock can be wrong at any time, also at a start, so no single reading tells the age
/// of a record. The *running time* of the store does: the time for which a machine that uses the
/// store has been up, measured by the machine's time since boot. The running time never runs ahead
/// of the real time, so a record that is older than a retention period by the running time is
/// really older. Records contain only readings of the system clock, so this history relates the
/// system clock to the running time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockHistory {
    /// The running time of the store.
    pub(super) running: i64,
    /// The running time at the last reading of each boot of each machine.
    boots: BTreeMap<String, BootMark>,
    /// The id of the boot of the last reading.
    last_boot: String,
    spans: Vec<ClockSpan>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct BootMark {
    uptime: i64,
    running: i64,
}

/// A span of running time in which the system clock was not set.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ClockSpan {
    from: i64,
    until: i64,
    /// The smallest and the greatest difference between the system clock and the running time.
    min_offset: i64,
    max_offset: i64,
}

/// The readings of the system clock during a period that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRange {
    /// The earliest reading. A record with an earlier time is older than the period.
    pub earliest: Timestamp,
    /// The latest reading. A record with a later time is older than the period, too: the system
    /// clock was ahead when the record was written.
    pub latest: Timestamp,
}

impl ClockHistory {
    /// Adds a reading. Returns by how many milliseconds the system clock differs from what the
    /// last reading implies, if it was set.
    pub(super) fn add(&mut self, reading: &Reading) -> Option<i64> {
        self.advance(reading);
        let before = self.spans.iter().max_by_key(|span| span.until).copied();
        let offset = reading.wall.saturating_sub(self.running);
        let is_new = self.add_offset(offset);
        before
            .filter(|_| is_new)
            .map(|before| offset.saturating_sub(before.max_offset))
    }

    /// Adds the time of a record that is being written.
    pub(super) fn add_time(&mut self, wall: i64) {
        self.add_offset(wall.saturating_sub(self.running));
    }

    fn advance(&mut self, reading: &Reading) {
        if let Some(mark) = self.boots.get(&reading.boot) {
            let passed = reading.uptime.saturating_sub(mark.uptime);
            if passed < 0 {
                return;
            }
            // If only other machines used the store in the meantime, some of these machines may
            // have started since: the running time of their readings is then too small for a
            // comparison.
            if self.last_boot == reading.boot || passed <= MAX_READING_GAP_MS {
                self.running = self.running.max(mark.running.saturating_add(passed));
            }
        }
        self.last_boot.clone_from(&reading.boot);
        let mark = BootMark {
            uptime: reading.uptime,
            running: self.running,
        };
        self.boots.insert(reading.boot.clone(), mark);
        if self.boots.len() > MAX_BOOTS {
            let oldest = self.boots.iter().min_by_key(|(_, mark)| mark.running);
            if let Some(boot) = oldest.map(|(boot, _)| boot.clone()) {
                self.boots.remove(&boot);
            }
        }
    }

    /// Returns whether a new span begins.
    fn add_offset(&mut self, offset: i64) -> bool {
        let running = self.running;
        let fits = |span: &&mut ClockSpan| {
            let min = span.min_offset.min(offset);
            span.max_offset.max(offset).saturating_sub(min) <= MAX_DRIFT_MS
        };
        if let Some(span) = self.spans.iter_mut().find(fits) {
            span.until = span.until.max(running);
            span.min_offset = span.min_offset.min(offset);
            span.max_offset = span.max_offset.max(offset);
            return false;
        }
        self.spans.push(ClockSpan {
            from: running,
            until: running,
            min_offset: offset,
            max_offset: offset,
        });
        if self.spans.len() > MAX_SPANS {
            self.merge_oldest();
        }
        true
    }

    /// Replaces the two oldest spans with one span that covers both, so that more records, and
    /// never fewer, are kept.
    fn merge_oldest(&mut self) {
        self.spans.sort_by_key(|span| span.until);
        let oldest = self.spans.remove(0);
        let next = &mut self.spans[0];
        next.from = next.from.min(oldest.from);
        next.min_offset = next.min_offset.min(oldest.min_offset);
        next.max_offset = next.max_offset.max(oldest.max_offset);
    }

    /// Returns the readings of the system clock during the last `age` of running time, or `None` if
    /// the store has not been in use for so long.
    #[must_use]
    pub fn during(&self, age: Duration) -> Option<ClockRange> {
        let age = i64::try_from(age.as_millis()).ok()?;
        let start = self.running.checked_sub(age).filter(|start| *start >= 0)?;
        let recent = self
            .spans
            .iter()
            .filter(|span| span.until.saturating_add(READING_LAG_MS) >= start);
        let earliest = recent
            .clone()
            .map(|span| span.from.max(start).saturating_add(span.min_offset));
        let latest = recent.map(|span| {
            let until = span.until.saturating_add(READING_LAG_MS);
            until.saturating_add(span.max_offset)
        });
        Some(ClockRange {
            earliest: Timestamp::from_millis(earliest.min()?),
            latest: Timestamp::from_millis(latest.max()?),
        })
    }

    /// Returns the time before which records are surely older than `age`, also records whose time
    /// is the begin of a call. `None` if no record is surely as old.
    #[must_use]
    pub fn before(&self, age: Duration) -> Option<Timestamp> {
        let delay = i64::try_from(age.as_millis())
            .ok()?
            .min(MAX_RECORD_DELAY_MS);
        let earliest = self.during(age)?.earliest.as_millis();
        Some(Timestamp::from_millis(earliest.saturating_sub(delay)))
    }

    /// Returns the time of the system clock, or an earlier time if the system clock was set forward
    /// in the last ten minutes of running time and may be set back.
    #[must_use]
    pub fn settled_time(&self, now: Timestamp) -> Timestamp {
        let settled = self.during(SETTLING_TIME);
        settled.map_or(now, |range| range.earliest.plus(SETTLING_TIME).min(now))
    }

    /// Returns the time until which records with a lifetime of `ttl` from their write have surely
    /// expired. `None` if no record has surely expired.
    #[must_use]
    pub fn expired(&self, ttl: Duration) -> Option<Timestamp> {
        self.before(ttl).map(|before| before.plus(ttl))
    }
}
