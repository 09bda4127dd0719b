use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Which connection a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionChoice {
    /// The request may use a kept connection, or a new connection. For a request that is safe to
    /// send again.
    Any,
    /// The request uses a kept connection only if the server is known to keep connections. For a
    /// request that must not be sent again once a byte of it was written.
    Reliable,
    /// The request uses a new connection. For a request that is sent again.
    New,
}

/// Minimum idle time after which a connection that is still open shows that the server keeps
/// connections.
const MIN_PERSISTENT_TIME: Duration = Duration::from_millis(50);

/// Minimum idle time for which a kept connection is worthwhile.
const MIN_IDLE_LIMIT: Duration = Duration::from_millis(2);

/// How long the client remembers that a server has closed a kept connection. The time doubles with
/// each further request that failed because of a close.
const MIN_CLOSE_TTL: Duration = Duration::from_secs(60);
const MAX_CLOSE_TTL: Duration = Duration::from_secs(3600);

/// What is known about how long a server keeps idle connections.
///
/// A server may close an idle connection at any time without announcing the close. If the close and
/// a request cross, the client cannot tell whether the server has received the request. This type
/// makes such crossings unlikely: a request that must not be sent again uses a kept connection only
/// after the server has kept a connection, and for a while after a close, requests use connections
/// only up to half of the idle time at which the server closed a connection.
#[derive(Debug, Default)]
pub struct KeepAliveEstimate {
    /// Whether the server has kept a connection since the server last closed a connection early.
    is_proven: AtomicBool,
    /// Whether `closes` is set. Requests lock `closes` only if this is `true`.
    has_closes: AtomicBool,
    closes: Mutex<Option<Closes>>,
}

#[derive(Debug, Clone, Copy)]
struct Closes {
    /// Maximum idle time of a connection that may be used.
    idle_limit: Duration,
    /// Number of requests that failed because of a close.
    broken: u32,
    until: Instant,
}

impl KeepAliveEstimate {
    /// Returns whether a request may use a connection that has been idle for `idle`.
    #[must_use]
    pub fn allows(&self, idle: Duration, choice: ConnectionChoice) -> bool {
        let max_idle = self.max_idle(Some(idle), choice);
        max_idle.is_some_and(|max_idle| idle <= max_idle)
    }

    /// Returns the maximum idle time of a connection that a request may use; `None` if the request
    /// needs a new connection. `idle` is the time since a kept connection was last used; `None` if
    /// there is no kept connection.
    #[must_use]
    pub fn max_idle(&self, idle: Option<Duration>, choice: ConnectionChoice) -> Option<Duration> {
        let is_allowed = match choice {
            ConnectionChoice::New => false,
            ConnectionChoice::Any => true,
            ConnectionChoice::Reliable => {
                self.is_proven() || idle.is_none_or(|idle| idle >= MIN_PERSISTENT_TIME)
            }
        };
        let limit = self.idle_limit();
        (is_allowed && !limit.is_zero()).then_some(limit)
    }

    /// Returns whether a connection that has been idle for `idle` is too old for any request.
    #[must_use]
    pub fn is_expired(&self, idle: Duration) -> bool {
        idle > self.idle_limit()
    }

    /// Returns whether a connection may be kept for another request.
    #[must_use]
    pub fn keeps_connections(&self) -> bool {
        !self.idle_limit().is_zero()
    }

    /// Returns whether the server has kept a connection since the server last closed a connection
    /// early.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Records that a kept connection was still open when it was used again.
    pub fn note_reused(&self) {
        if !self.is_proven() {
            self.is_proven.store(true, Ordering::Relaxed);
        }
    }

    /// Records that the server has closed a connection that was idle for at most `idle`, before a
    /// request was sent over it.
    pub fn note_closed(&self, idle: Duration) {
        self.record_close(idle, false);
    }

    /// Records that a request failed because the server closed a connection that had been idle for
    /// `idle`. After the second such request, no connection is kept for a while.
    pub fn note_broken(&self, idle: Duration) {
        self.record_close(idle, true);
    }

    fn record_close(&self, idle: Duration, is_broken: bool) {
        let now = Instant::now();
        let mut closes = self.closes.lock();
        let broken = closes.map_or(0, |closes| closes.broken) + u32::from(is_broken);
        let earlier = closes.filter(|closes| now < closes.until);
        let half = idle / 2;
        let idle_limit = earlier.map_or(half, |closes| closes.idle_limit.min(half));
        let has_broken_before = is_broken && earlier.is_some_and(|closes| closes.broken > 0);
        let ttl = MIN_CLOSE_TTL.saturating_mul(1 << broken.saturating_sub(1).min(10));
        let until = now + ttl.min(MAX_CLOSE_TTL);
        *closes = Some(Closes {
            idle_limit: if has_broken_before || idle_limit < MIN_IDLE_LIMIT {
                Duration::ZERO
            } else {
                idle_limit
            },
            broken: broken.min(u32::from(u8::MAX)),
            until: earlier.map_or(until, |closes| closes.until.max(until)),
        });
        self.has_closes.store(true, Ordering::Release);
        if half < MIN_PERSISTENT_TIME {
            self.is_proven.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets the recorded closes, because a restart of the server closes every connection.
    pub fn forget_closes(&self) {
        if self.has_closes.swap(false, Ordering::AcqRel) {
            *self.closes.lock() = None;
        }
    }

    fn idle_limit(&self) -> Duration {
        if !self.has_closes.load(Ordering::Acquire) {
            return Duration::MAX;
        }
        match *self.closes.lock() {
            Some(closes) if Instant::now() < closes.until => closes.idle_limit,
            _ => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_request_that_must_not_be_repeated_needs_a_server_that_keeps_connections() {
        let keep_alive = KeepAliveEstimate::default();
        assert!(keep_alive.allows(Duration::ZERO, ConnectionChoice::Any));
        assert!(!keep_alive.allows(Duration::ZERO, ConnectionChoice::New));
        assert!(!keep_alive.allows(Duration::ZERO, ConnectionChoice::Reliable));
        assert!(keep_alive.allows(MIN_PERSISTENT_TIME, ConnectionChoice::Reliable));
        keep_alive.note_reused();
        assert!(keep_alive.allows(Duration::ZERO, ConnectionChoice::Reliable));
    }

    #[test]
    fn connections_are_used_up_to_half_of_the_idle_time_of_a_close() {
        let keep_alive = KeepAliveEstimate::default();
        keep_alive.note_reused();
        keep_alive.note_closed(4 * SECOND);
        for choice in [ConnectionChoice::Any, ConnectionChoice::Reliable] {
            assert!(keep_alive.allows(2 * SECOND, choice));
            assert!(!keep_alive.allows(3 * SECOND, choice));
        }
        // A later close after a longer idle time does not raise the limit.
        keep_alive.note_closed(60 * SECOND);
        assert!(!keep_alive.allows(3 * SECOND, ConnectionChoice::Any));
        keep_alive.note_closed(MIN_PERSISTENT_TIME);
        assert!(keep_alive.allows(MIN_PERSISTENT_TIME / 2, ConnectionChoice::Any));
        assert!(!keep_alive.allows(Duration::ZERO, ConnectionChoice::Reliable));
        keep_alive.note_closed(MIN_IDLE_LIMIT);
        assert!(!keep_alive.allows(Duration::from_micros(1), ConnectionChoice::Any));
        keep_alive.forget_closes();
        assert!(keep_alive.allows(60 * SECOND, ConnectionChoice::Any));
    }

    #[test]
    fn after_two_failed_requests_no_connection_is_kept_for_a_while() {
        let keep_alive = KeepAliveEstimate::default();
        keep_alive.note_broken(10 * SECOND);
        assert!(keep_alive.allows(5 * SECOND, ConnectionChoice::Any));
        keep_alive.note_broken(4 * SECOND);
        assert!(!keep_alive.allows(Duration::from_micros(1), ConnectionChoice::Any));
    }

    #[test]
    fn the_habit_is_forgotten_after_a_while() {
        let keep_alive = KeepAliveEstimate::default();
        for ttl in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            keep_alive.note_broken(SECOND);
            let mut locked = keep_alive.closes.lock();
            let closes = locked.as_mut().unwrap();
            let left = closes.until - Instant::now();
            assert!(
                left > (ttl - 1) * SECOND && left <= ttl * SECOND,
                "{left:?}"
            );
            closes.until -= ttl * SECOND;
        }
        assert!(keep_alive.allows(60 * SECOND, ConnectionChoice::Any));
        keep_alive.note_closed(60 * SECOND);
        assert!(keep_alive.allows(20 * SECOND, ConnectionChoice::Any));
    }
}
