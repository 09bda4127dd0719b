use std::collections::BTreeMap;
use std::time::Duration;

use pillion_core::store::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum change of the system clock that is regarded as a correction and not as a new setting, in
/// milliseconds.
const MAX_DRIFT_MS: i64 = 5 * 60 * 1_000;
/// Assumed maximum time from a reading to the last record that is written before the next reading,
/// in milliseconds. A process that writes records stores a reading at least every ten minutes.
const MAX_READING_LAG_MS: i64 = 30 * 60 * 1_000;
/// Maximum time between two readings of a machine that counts as uptime of the store if another
/// machine used the store in between, in milliseconds.
const MAX_READING_GAP_MS: i64 = 20 * 60 * 1_000;
/// Maximum delay between the beginning of a call and the write of its record, in milliseconds. If
/// the delay is longer, the record needs a new reading.
pub(super) const MAX_RECORD_DELAY_MS: i64 = 60 * 60 * 1_000;
/// How long a change of the system clock must last before it is regarded as intended.
const SETTLING_INTERVAL: Duration = Duration::from_secs(600);
const MAX_BOOTS: usize = 64;
const MAX_SPANS: usize = 256;

/// A reading of the system clock and of the machine's uptime, taken at the same time.
#[derive(Debug, Clone)]
pub(super) struct ClockReading {
    /// Identifies the boot since which `uptime` counts.
    pub(super) boot_id: String,
    /// The time since the boot of the machine, in milliseconds. Users cannot change this clock.
    pub(super) uptime: i64,
    /// The time of the system clock, in milliseconds since 1970.
    pub(super) wall_time: i64,
}

/// The readings of the system clock during the life of a store.
///
/// The system clock can be wrong at any time, also at a start, so no single reading determines the
/// age of a record. The age is determined by the *uptime of the store*: the total time during which
/// any machine that uses the store was up, measured by the machines' time since boot. The uptime of
/// the store never increases faster than the real time, so a record that is older than a retention
/// period by this uptime is really older. Records contain only times of the system clock; this
/// history relates these times to the uptime of the store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockHistory {
    /// The uptime of the store at the last reading, in milliseconds: the time during which machines
    /// that use the store were up.
    #[serde(rename = "running")]
    pub(super) store_uptime: i64,
    /// For each boot of each machine, the uptimes of the machine and of the store at the last
    /// reading.
    boots: BTreeMap<String, BootMark>,
    /// The boot ID of the last reading.
    last_boot: String,
    spans: Vec<ClockSpan>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct BootMark {
    uptime: i64,
    #[serde(rename = "running")]
    store_uptime: i64,
}

/// A span of the uptime of the store in which the system clock was not set.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ClockSpan {
    from: i64,
    until: i64,
    /// The smallest and the greatest value of the system clock minus the uptime of the store.
    min_offset: i64,
    max_offset: i64,
}

/// The readings of the system clock during a period that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRange {
    /// The earliest reading. A record with an earlier time is older than the period.
    pub earliest_reading: Timestamp,
    /// The latest reading. A record with a later time is older than the period, too, because it was
    /// written while the system clock was ahead.
    pub latest_reading: Timestamp,
}

impl ClockHistory {
    /// Adds a reading. If the system clock was set since the last reading, returns the difference
    /// between the system clock and the expected time, in milliseconds.
    pub(super) fn add(&mut self, reading: &ClockReading) -> Option<i64> {
        self.advance(reading);
        let last_span = self.spans.iter().max_by_key(|span| span.until).copied();
        let offset = reading.wall_time.saturating_sub(self.store_uptime);
        let is_new_span = self.add_offset(offset);
        last_span
            .filter(|_| is_new_span)
            .map(|last_span| offset.saturating_sub(last_span.max_offset))
    }

    /// Adds the time of a record that is being written.
    pub(super) fn add_time(&mut self, wall_time: i64) {
        self.add_offset(wall_time.saturating_sub(self.store_uptime));
    }

    fn advance(&mut self, reading: &ClockReading) {
        if let Some(boot_mark) = self.boots.get(&reading.boot_id) {
            let elapsed_ms = reading.uptime.saturating_sub(boot_mark.uptime);
            if elapsed_ms < 0 {
                return;
            }
            // A long elapsed time does not count if another machine has used the store since the
            // last reading of this machine. The readings of the other machine may lack this time,
            // and counting the time now would make its records appear too old.
            if self.last_boot == reading.boot_id || elapsed_ms <= MAX_READING_GAP_MS {
                self.store_uptime = self
                    .store_uptime
                    .max(boot_mark.store_uptime.saturating_add(elapsed_ms));
            }
        }
        self.last_boot.clone_from(&reading.boot_id);
        let boot_mark = BootMark {
            uptime: reading.uptime,
            store_uptime: self.store_uptime,
        };
        self.boots.insert(reading.boot_id.clone(), boot_mark);
        if self.boots.len() > MAX_BOOTS {
            let oldest_boot = self
                .boots
                .iter()
                .min_by_key(|(_, boot_mark)| boot_mark.store_uptime);
            if let Some(boot_id) = oldest_boot.map(|(boot_id, _)| boot_id.clone()) {
                self.boots.remove(&boot_id);
            }
        }
    }

    /// Adds an offset (system clock minus uptime of the store) to a span with similar offsets, or
    /// begins a new span if there is none. Returns whether a new span began.
    fn add_offset(&mut self, offset: i64) -> bool {
        let is_within_drift = |span: &&mut ClockSpan| {
            let min_offset = span.min_offset.min(offset);
            span.max_offset.max(offset).saturating_sub(min_offset) <= MAX_DRIFT_MS
        };
        if let Some(span) = self.spans.iter_mut().find(is_within_drift) {
            span.until = span.until.max(self.store_uptime);
            span.min_offset = span.min_offset.min(offset);
            span.max_offset = span.max_offset.max(offset);
            return false;
        }
        self.spans.push(ClockSpan {
            from: self.store_uptime,
            until: self.store_uptime,
            min_offset: offset,
            max_offset: offset,
        });
        if self.spans.len() > MAX_SPANS {
            self.merge_oldest();
        }
        true
    }

    /// Replaces the two oldest spans with one span that covers both. As a result, some records may
    /// be kept for longer, but no record is removed too early.
    fn merge_oldest(&mut self) {
        self.spans.sort_by_key(|span| span.until);
        let oldest_span = self.spans.remove(0);
        let next_span = &mut self.spans[0];
        next_span.from = next_span.from.min(oldest_span.from);
        next_span.min_offset = next_span.min_offset.min(oldest_span.min_offset);
        next_span.max_offset = next_span.max_offset.max(oldest_span.max_offset);
    }

    /// Returns the readings of the system clock during the last `age` of the uptime of the store.
    /// Returns `None` if the uptime of the store is shorter than `age`.
    #[must_use]
    pub fn readings_during(&self, age: Duration) -> Option<ClockRange> {
        let age_ms = i64::try_from(age.as_millis()).ok()?;
        let start = self
            .store_uptime
            .checked_sub(age_ms)
            .filter(|start| *start >= 0)?;
        let recent_spans = self
            .spans
            .iter()
            .filter(|span| span.until.saturating_add(MAX_READING_LAG_MS) >= start);
        let earliest_times = recent_spans
            .clone()
            .map(|span| span.from.max(start).saturating_add(span.min_offset));
        let latest_times = recent_spans.map(|span| {
            let span_end = span.until.saturating_add(MAX_READING_LAG_MS);
            span_end.saturating_add(span.max_offset)
        });
        Some(ClockRange {
            earliest_reading: Timestamp::from_millis(earliest_times.min()?),
            latest_reading: Timestamp::from_millis(latest_times.max()?),
        })
    }

    /// Returns a time such that every record with an earlier time is older than `age`, even if the
    /// record was written some time after its call began. Returns `None` if no record is certainly
    /// that old.
    #[must_use]
    pub fn cutoff_for_age(&self, age: Duration) -> Option<Timestamp> {
        let delay = i64::try_from(age.as_millis())
            .ok()?
            .min(MAX_RECORD_DELAY_MS);
        let earliest_time = self.readings_during(age)?.earliest_reading.as_millis();
        Some(Timestamp::from_millis(earliest_time.saturating_sub(delay)))
    }

    /// Returns the time of the system clock, or an earlier time if the system clock was set forward
    /// in the last ten minutes of the uptime of the store, because the clock may be set back again.
    #[must_use]
    pub fn settled_time(&self, now: Timestamp) -> Timestamp {
        let settled_range = self.readings_during(SETTLING_INTERVAL);
        settled_range.map_or(now, |range| {
            range.earliest_reading.plus(SETTLING_INTERVAL).min(now)
        })
    }

    /// Returns a time such that every record with a lifetime of `ttl` that expires before that time
    /// has certainly expired. Returns `None` if no record has certainly expired.
    #[must_use]
    pub fn expired_until(&self, ttl: Duration) -> Option<Timestamp> {
        self.cutoff_for_age(ttl).map(|cutoff| cutoff.plus(ttl))
    }
}
