//! Decides when the tools of a server are listed next.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_config::McpSection;
use pillion_core::tool::ToolName;
use tokio::time::Instant;

/// The discovery state of one server.
#[derive(Debug, Default, Clone)]
pub(super) struct DiscoveryState {
    /// The names under which the server's tools are registered.
    pub(super) tools: Vec<ToolName>,
    /// The time of the next `tools/list`; `None` if the tools can be listed now.
    pub(super) next_request_at: Option<Instant>,
    /// Number of failed attempts to list the tools since the last successful attempt.
    pub(super) failures: u32,
    /// Whether the list must be requested now, even if it is fresh.
    pub(super) is_stale: bool,
    /// Whether the server has notified that its list has changed.
    pub(super) has_changed: bool,
    /// Whether the server is closed: no `tools/list` is sent, and none of its tools is registered.
    pub(super) is_closed: bool,
}

/// Counts the requests for a server's tools.
#[derive(Debug, Default)]
pub(super) struct ListRequestCounts {
    /// The sequence number of the request that was started last.
    pub(super) last_started: AtomicU64,
    /// The sequence number of the request that was finished last.
    pub(super) last_finished: AtomicU64,
}

/// Returns the time after which a list is stale; far in the future if lists never become stale.
pub(super) fn time_until_stale(section: &McpSection) -> Duration {
    const FAR_FUTURE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    if section.refresh_after.is_zero() {
        FAR_FUTURE
    } else {
        section.refresh_after
    }
}

/// Returns the pause before the next attempt to list a server's tools. `failures` is the number of
/// consecutive failures before the latest one.
pub(super) fn backoff(section: &McpSection, failures: u32) -> Duration {
    /// Maximum pause for a server that fails repeatedly.
    const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(300);
    let pause = section.retry_after.saturating_mul(1 << failures.min(16));
    pause.min(MAX_RETRY_INTERVAL.max(section.retry_after))
}

impl DiscoveryState {
    /// Marks the server as closed; no further `tools/list` is sent. Returns the names of its
    /// registered tools.
    pub(super) fn close(&mut self) -> Vec<ToolName> {
        self.is_closed = true;
        std::mem::take(&mut self.tools)
    }

    pub(super) fn is_due(&self, notification_pause: &NotificationPause) -> bool {
        self.is_stale
            || (self.has_changed && self.honors_notifications(notification_pause))
            || self.next_request_at.is_none_or(|at| Instant::now() >= at)
    }

    /// Returns whether a change notification is honored. Notifications of failing servers and, for
    /// a while, of slow servers are ignored.
    fn honors_notifications(&self, notification_pause: &NotificationPause) -> bool {
        self.failures == 0 && notification_pause.paused_until().is_none()
    }
}

/// The time until which change notifications of a server are ignored. Set after each successful
/// `tools/list` request, and checked before a notification is honored.
#[derive(Debug, Default)]
pub struct NotificationPause(Mutex<Option<Instant>>);

impl NotificationPause {
    /// Ignores notifications until `paused_until`. With `None`, notifications are honored.
    pub(super) fn set(&self, paused_until: Option<Instant>) {
        *self.0.lock() = paused_until;
    }

    /// Returns the time until which notifications are ignored, or `None` if notifications are
    /// honored.
    pub fn paused_until(&self) -> Option<Instant> {
        let paused_until = *self.0.lock();
        paused_until.filter(|time| *time > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn list_changes_are_honored_unless_the_server_fails_or_is_slow() {
        let far = Some(Instant::now() + Duration::from_secs(3600));
        let known = DiscoveryState {
            next_request_at: far,
            ..DiscoveryState::default()
        };
        let notification_pause = NotificationPause::default();
        let is_due = |state: &DiscoveryState| state.is_due(&notification_pause);
        assert!(!is_due(&known));
        let changed = DiscoveryState {
            has_changed: true,
            ..known.clone()
        };
        assert!(is_due(&changed));
        let fails = DiscoveryState {
            failures: 1,
            ..changed.clone()
        };
        assert!(!is_due(&fails), "the server is backed off for a while");
        let stale = DiscoveryState {
            is_stale: true,
            ..fails
        };
        assert!(is_due(&stale), "a caller requests the list");
        notification_pause.set(Some(Instant::now() + Duration::from_secs(30)));
        assert!(!is_due(&changed), "it is slow");
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(is_due(&changed));
    }
}
