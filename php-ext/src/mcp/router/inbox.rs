use std::collections::VecDeque;
use std::sync::Mutex;

use pillion_mcp_client::Notification;

use crate::runtime::lock;

/// Maximum number of notifications that wait for one object. Above this number, the oldest
/// notifications are dropped.
const MAX_PENDING_NOTIFICATIONS: usize = 256;

/// The pending notifications of one PHP object.
#[derive(Default)]
pub struct NotificationInbox(Mutex<VecDeque<Notification>>);

impl NotificationInbox {
    /// Removes and returns the pending notifications, oldest first.
    pub fn take_all(&self) -> VecDeque<Notification> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// Puts undelivered notifications back, before the notifications that arrived later.
    pub fn put_back(&self, mut notifications: VecDeque<Notification>) {
        let mut new_notifications = lock(&self.0);
        notifications.append(&mut new_notifications);
        *new_notifications = notifications;
    }

    /// Adds a notification. Returns whether it is the only pending notification.
    pub(super) fn put(&self, notification: Notification) -> bool {
        let mut notifications = lock(&self.0);
        if notifications.len() == MAX_PENDING_NOTIFICATIONS {
            notifications.pop_front();
        }
        notifications.push_back(notification);
        notifications.len() == 1
    }
}
