//! When the tools of a server are listed next.

use std::sync::atomic::AtomicU64;

use pillion_core::tool::ToolName;
use tokio::time::Instant;

use super::notification_pause::NotificationPause;

/// The discovery state of one server.
#[derive(Debug, Default, Clone)]
pub(super) struct DiscoveryState {
    /// The names under which the server's tools are registered.
    pub(super) tools: Vec<ToolName>,
    /// When to list the tools next; `None` for now.
    pub(super) next: Option<NextListing>,
    /// Number of failed attempts since the last success.
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
    pub(super) begun: AtomicU64,
    /// The number of the last finished request.
    pub(super) ended: AtomicU64,
}

/// When to list the tools next.
#[derive(Debug, Clone, Copy)]
pub(super) enum NextListing {
    At(Instant),
    Never,
}

impl DiscoveryState {
    /// Marks the server as closed; no further `tools/list` is sent. Returns the names of its
    /// registered tools.
    pub(super) fn close(&mut self) -> Vec<ToolName> {
        self.is_closed = true;
        std::mem::take(&mut self.tools)
    }

    pub(super) fn is_due(&self, notification_pause: &NotificationPause) -> bool {
        if self.is_stale || (self.has_changed && self.honors_notifications(notification_pause)) {
            return true;
        }
        match self.next {
            None => true,
            Some(NextListing::At(instant)) => Instant::now() >= instant,
            Some(NextListing::Never) => false,
        }
    }

    /// Returns whether a change notification is honored. Notifications of failing servers and, for
    /// a while, of slow servers are ignored.
    fn honors_notifications(&self, notification_pause: &NotificationPause) -> bool {
        self.failures == 0 && notification_pause.until().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn list_changes_are_honored_unless_the_server_fails_or_is_slow() {
        let far = Some(NextListing::At(Instant::now() + Duration::from_secs(3600)));
        let known = DiscoveryState {
            next: far,
            ..DiscoveryState::default()
        };
        let notification_pause = NotificationPause::default();
        assert!(!known.is_due(&notification_pause));
        let changed = DiscoveryState {
            has_changed: true,
            ..known.clone()
        };
        assert!(changed.is_due(&notification_pause));
        let fails = DiscoveryState {
            failures: 1,
            ..changed.clone()
        };
        assert!(
            !fails.is_due(&notification_pause),
            "the server is backed off for a while"
        );
        let stale = DiscoveryState {
            is_stale: true,
            ..fails
        };
        assert!(
            stale.is_due(&notification_pause),
            "a caller requests the list"
        );
        notification_pause.set(Some(Instant::now() + Duration::from_secs(30)));
        assert!(!changed.is_due(&notification_pause), "it is slow");
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(changed.is_due(&notification_pause));
    }
}
