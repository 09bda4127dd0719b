use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::executor::RateWindows;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl RateWindows {
    /// Returns whether the number of calls is limited in any window.
    pub(super) fn has_limit(&self) -> bool {
        self.limits().next().is_some()
    }

    /// Returns the configured limits, shortest window first, each as the window's name, the
    /// window's length and the maximum number of calls.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&'static str, Duration, u32)> {
        [
            ("minute", MINUTE, self.per_minute),
            ("hour", HOUR, self.per_hour),
            ("day", DAY, self.per_day),
        ]
        .into_iter()
        .filter_map(|(label, length, limit)| Some((label, length, limit?)))
    }

    /// Returns the length of the longest window; zero if no limit is set.
    pub(super) fn max_length(&self) -> Duration {
        self.limits()
            .map(|(_, length, _)| length)
            .max()
            .unwrap_or_default()
    }

    /// Returns the largest of the limits of all windows, in calls; zero if no limit is set.
    pub(super) fn max_calls(&self) -> u32 {
        self.limits().map(|(_, _, limit)| limit).max().unwrap_or(0)
    }
}

/// The times at which calls of one account to one tool or server were admitted, oldest first.
///
/// Never has more entries than the largest limit that applies: rejected calls are not added, and
/// calls outside the longest window are dropped.
#[derive(Default)]
pub(super) struct CallTimes {
    times: VecDeque<Instant>,
    horizon: Duration,
}

impl CallTimes {
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    pub(super) fn last(&self) -> Option<Instant> {
        self.times.back().copied()
    }

    pub(super) fn add(&mut self, now: Instant, horizon: Duration) {
        self.horizon = horizon;
        self.drop_expired(now);
        self.times.push_back(now);
    }

    /// Inserts a past call in order. Drops the oldest entry if there are more than `max_calls`
    /// entries (but keeps at least one), because older entries do not affect whether a call is
    /// admitted.
    pub(super) fn insert_past(&mut self, at: Instant, horizon: Duration, max_calls: u32) {
        self.horizon = self.horizon.max(horizon);
        let index = self.times.partition_point(|time| *time <= at);
        self.times.insert(index, at);
        if self.times.len() > (max_calls as usize).max(1) {
            self.times.pop_front();
        }
    }

    pub(super) fn drop_expired(&mut self, now: Instant) {
        while let Some(oldest) = self.times.front()
            && now.saturating_duration_since(*oldest) >= self.horizon
        {
            self.times.pop_front();
        }
    }

    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.last()
            .is_none_or(|last| now.saturating_duration_since(last) >= self.horizon)
    }

    /// Returns the time until one more call is within `limit` calls per `length`; `None` if one
    /// more call is within the limit now.
    pub(super) fn time_until_allowed(
        &self,
        limit: u32,
        length: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let limit = limit as usize;
        if limit == 0 {
            return Some(length);
        }
        // The next call is allowed as soon as this past call is older than the window.
        let blocking_index = self.times.len().checked_sub(limit)?;
        let age = now.saturating_duration_since(*self.times.get(blocking_index)?);
        let wait = length.saturating_sub(age);
        (!wait.is_zero()).then_some(wait)
    }
}
