use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Which connection a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionChoice {
    /// The request may use an idle connection or a new connection. Used for a request that is safe
    /// to send again.
    Any,
    /// The request uses an idle connection only if the server is known to keep idle connections
    /// open. Used for a request that must not be sent again once a byte of it was written.
    Reliable,
    /// The request uses a new connection. Used when a request is sent again.
    New,
}

/// Minimum idle time after which a connection that is still open shows that the server keeps idle
/// connections open.
const MIN_PERSISTENT_IDLE_TIME: Duration = Duration::from_millis(50);

/// Minimum value of the idle limit for which it is worthwhile to reuse connections.
const MIN_IDLE_LIMIT: Duration = Duration::from_millis(2);

/// How long the client remembers that a server has closed an idle connection. The time doubles with
/// each further request that failed because of a close.
const MIN_CLOSE_TTL: Duration = Duration::from_secs(60);
const MAX_CLOSE_TTL: Duration = Duration::from_secs(3600);

/// An estimate of the time for which a server keeps idle connections open.
///
/// A server may close an idle connection at any time without announcing the close. If the client
/// sends a request at the same time, the client cannot tell whether the server has received the
/// request. Two rules make this case unlikely. A request that must not be sent again uses an idle
/// connection only after the server has kept an idle connection open. After the server has closed a
/// connection, requests use for a while only connections that have been idle for at most half as
/// long as the closed connection.
#[derive(Debug, Default)]
pub struct KeepAliveEstimate {
    /// Whether the server has kept an idle connection open since the server last closed a
    /// connection that had been idle only briefly.
    is_proven: AtomicBool,
    /// Whether `closes` is set. If `false`, requests need not lock `closes`.
    has_closes: AtomicBool,
    closes: Mutex<Option<CloseRecord>>,
}

#[derive(Debug, Clone, Copy)]
struct CloseRecord {
    /// Maximum idle time of a connection that may be used.
    idle_limit: Duration,
    /// Number of requests that failed because the server closed their connection.
    broken_requests: u32,
    expires_at: Instant,
}

impl KeepAliveEstimate {
    /// Returns whether a request may use a connection that has been idle for `idle_time`.
    #[must_use]
    pub fn allows(&self, idle_time: Duration, choice: ConnectionChoice) -> bool {
        let max_idle = self.max_idle(Some(idle_time), choice);
        max_idle.is_some_and(|max_idle| idle_time <= max_idle)
    }

    /// Returns the maximum idle time of a connection that a request may use; `None` if the request
    /// needs a new connection. `idle_time` is the time since the idle connection was last used;
    /// `None` if there is no idle connection.
    #[must_use]
    pub fn max_idle(
        &self,
        idle_time: Option<Duration>,
        choice: ConnectionChoice,
    ) -> Option<Duration> {
        let is_allowed = match choice {
            ConnectionChoice::New => false,
            ConnectionChoice::Any => true,
            ConnectionChoice::Reliable => {
                self.is_proven()
                    || idle_time.is_none_or(|idle_time| idle_time >= MIN_PERSISTENT_IDLE_TIME)
            }
        };
        let limit = self.idle_limit();
        (is_allowed && !limit.is_zero()).then_some(limit)
    }

    /// Returns whether a connection that has been idle for `idle_time` is too old for any request.
    #[must_use]
    pub fn is_expired(&self, idle_time: Duration) -> bool {
        idle_time > self.idle_limit()
    }

    /// Returns whether a connection may be reused for another request.
    #[must_use]
    pub fn keeps_connections(&self) -> bool {
        !self.idle_limit().is_zero()
    }

    /// Returns whether the server has kept an idle connection open since the server last closed a
    /// connection that had been idle only briefly.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Records that an idle connection was still open when a request reused it.
    pub fn note_reused(&self) {
        if !self.is_proven() {
            self.is_proven.store(true, Ordering::Relaxed);
        }
    }

    /// Records that the server has closed a connection that was idle for at most `idle_time`, before
    /// a request was sent over the connection.
    pub fn note_closed(&self, idle_time: Duration) {
        self.record_close(idle_time, false);
    }

    /// Records that a request failed because the server closed a connection that had been idle for
    /// `idle_time`. After the second failure of this kind, connections are not reused for a while.
    pub fn note_broken(&self, idle_time: Duration) {
        self.record_close(idle_time, true);
    }

    fn record_close(&self, idle_time: Duration, is_broken: bool) {
        let now = Instant::now();
        let mut closes = self.closes.lock();
        let broken_requests =
            closes.map_or(0, |closes| closes.broken_requests) + u32::from(is_broken);
        let earlier_closes = closes.filter(|closes| now < closes.expires_at);
        let half_idle_time = idle_time / 2;
        let idle_limit = earlier_closes.map_or(half_idle_time, |closes| {
            closes.idle_limit.min(half_idle_time)
        });
        let has_broken_before =
            is_broken && earlier_closes.is_some_and(|closes| closes.broken_requests > 0);
        let ttl = MIN_CLOSE_TTL.saturating_mul(1 << broken_requests.saturating_sub(1).min(10));
        let expires_at = now + ttl.min(MAX_CLOSE_TTL);
        *closes = Some(CloseRecord {
            idle_limit: if has_broken_before || idle_limit < MIN_IDLE_LIMIT {
                Duration::ZERO
            } else {
                idle_limit
            },
            broken_requests: broken_requests.min(u32::from(u8::MAX)),
            expires_at: earlier_closes
                .map_or(expires_at, |closes| closes.expires_at.max(expires_at)),
        });
        self.has_closes.store(true, Ordering::Release);
        if half_idle_time < MIN_PERSISTENT_IDLE_TIME {
            self.is_proven.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets the recorded closes after a restart of the server: a restart closes every
    /// connection, and so does not show how long the server keeps idle connections open.
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
            Some(closes) if Instant::now() < closes.expires_at => closes.idle_limit,
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
        assert!(keep_alive.allows(MIN_PERSISTENT_IDLE_TIME, ConnectionChoice::Reliable));
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
        keep_alive.note_closed(MIN_PERSISTENT_IDLE_TIME);
        assert!(keep_alive.allows(MIN_PERSISTENT_IDLE_TIME / 2, ConnectionChoice::Any));
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
            let mut locked_closes = keep_alive.closes.lock();
            let closes = locked_closes.as_mut().unwrap();
            let remaining_time = closes.expires_at - Instant::now();
            assert!(
                remaining_time > (ttl - 1) * SECOND && remaining_time <= ttl * SECOND,
                "{remaining_time:?}"
            );
            closes.expires_at -= ttl * SECOND;
        }
        assert!(keep_alive.allows(60 * SECOND, ConnectionChoice::Any));
        keep_alive.note_closed(60 * SECOND);
        assert!(keep_alive.allows(20 * SECOND, ConnectionChoice::Any));
    }
}
