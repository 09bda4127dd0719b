use std::collections::VecDeque;
use std::sync::Mutex;

use pillion_mcp_client::Notification;

use super::lock;

/// Maximum number of notifications that wait for one object. Beyond it, the oldest are dropped.
const MAX_WAITING_NOTICES: usize = 256;

/// The pending notifications of one PHP object.
#[derive(Default)]
pub struct Mailbox(Mutex<VecDeque<Notification>>);

impl Mailbox {
    /// Removes and returns the pending notifications, oldest first.
    pub fn take_all(&self) -> VecDeque<Notification> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// Puts undelivered notifications back, before those that arrived since.
    pub fn put_back(&self, mut notices: VecDeque<Notification>) {
        let mut since = lock(&self.0);
        notices.append(&mut since);
        *since = notices;
    }

    /// Adds a notification. Returns whether it is the first pending one.
    pub(super) fn put(&self, notice: Notification) -> bool {
        let mut notices = lock(&self.0);
        if notices.len() == MAX_WAITING_NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
        notices.len() == 1
    }
}
