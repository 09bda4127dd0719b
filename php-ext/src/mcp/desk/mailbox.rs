use std::collections::VecDeque;
use std::sync::Mutex;

use pillion_core::mcp::Notification;

use super::lock;

/// How many notices wait for one object; then the oldest go.
const MOST_WAITING_NOTICES: usize = 256;

/// Notices for one PHP object.
#[derive(Default)]
pub struct Mailbox(Mutex<VecDeque<Notification>>);

impl Mailbox {
    /// The notices that wait, the oldest first.
    pub fn take_all(&self) -> VecDeque<Notification> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// Those that could not be delivered, before what has come since.
    pub fn put_back(&self, mut notices: VecDeque<Notification>) {
        let mut since = lock(&self.0);
        notices.append(&mut since);
        *since = notices;
    }

    /// Whether it is the first that waits.
    pub(super) fn put(&self, notice: Notification) -> bool {
        let mut notices = lock(&self.0);
        if notices.len() == MOST_WAITING_NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
        notices.len() == 1
    }
}
