//! A queue of messages to a client, limited in bytes.

use std::collections::VecDeque;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The queued messages to a client. Senders wait while `max_bytes` bytes or more are queued, so a
/// single message may exceed the limit.
#[derive(Debug)]
pub(crate) struct Outbox<M> {
    state: Mutex<OutboxState<M>>,
    max_bytes: usize,
    /// Notified when the queue may have room for the message of a waiting sender.
    room_notify: Notify,
    /// Notified when there is a message to write, or the outbox is closed.
    message_notify: Notify,
}

#[derive(Debug)]
struct OutboxState<M> {
    messages: VecDeque<M>,
    queued_bytes: usize,
    is_closed: bool,
}

impl<M: AsRef<[u8]>> Outbox<M> {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            state: Mutex::new(OutboxState {
                messages: VecDeque::new(),
                queued_bytes: 0,
                is_closed: false,
            }),
            max_bytes,
            room_notify: Notify::new(),
            message_notify: Notify::new(),
        }
    }

    /// Queues a message as soon as there is room, and calls `on_queued` under the lock of the
    /// queue. If the future is dropped before that, the message is not queued.
    pub(crate) async fn send(&self, mut message: M, mut on_queued: impl FnMut()) {
        loop {
            let mut room_notification = std::pin::pin!(self.room_notify.notified());
            // The sender registers for the notification before it checks for room, so that it
            // misses no notification.
            room_notification.as_mut().enable();
            match self.try_send(message, &mut on_queued) {
                Ok(()) => return,
                Err(rejected_message) => message = rejected_message,
            }
            room_notification.await;
        }
    }

    fn try_send(&self, message: M, on_queued: &mut impl FnMut()) -> Result<(), M> {
        let mut state = self.state.lock();
        if state.queued_bytes >= self.max_bytes {
            return Err(message);
        }
        on_queued();
        self.push(&mut state, message);
        // Notifies the next sender, because one notification may announce room for many messages.
        if state.queued_bytes < self.max_bytes {
            self.room_notify.notify_one();
        }
        Ok(())
    }

    /// Queues a message at once, even if `max_bytes` bytes or more are queued. The caller limits
    /// the number and size of such messages.
    pub(crate) fn send_now(&self, message: M) {
        self.push(&mut self.state.lock(), message);
    }

    fn push(&self, state: &mut OutboxState<M>, message: M) {
        state.queued_bytes += message.as_ref().len();
        state.messages.push_back(message);
        self.message_notify.notify_one();
    }

    fn is_full(&self) -> bool {
        self.state.lock().queued_bytes >= self.max_bytes
    }

    /// Resolves when the queue has room. Cancel-safe.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            let mut room_notification = std::pin::pin!(self.room_notify.notified());
            room_notification.as_mut().enable();
            if !self.is_full() {
                // Notifies the next waiting sender, because this caller queues nothing.
                self.room_notify.notify_one();
                return;
            }
            room_notification.await;
        }
    }

    /// Returns the next message; `None` when the outbox is closed and empty. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<M> {
        loop {
            let notification = self.message_notify.notified();
            if let Poll::Ready(message) = self.try_next() {
                return message;
            }
            notification.await;
        }
    }

    fn try_next(&self) -> Poll<Option<M>> {
        let mut state = self.state.lock();
        match state.messages.pop_front() {
            Some(message) => {
                state.queued_bytes -= message.as_ref().len();
                self.room_notify.notify_one();
                Poll::Ready(Some(message))
            }
            None if state.is_closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Closes the outbox: [`next`](Self::next) returns the messages that are still queued, and then
    /// `None`.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.message_notify.notify_one();
    }

    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.state.lock().queued_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    const MAX_WAITING_BYTES: usize = 1024;

    fn line(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    #[tokio::test]
    async fn h6_a_sender_waits_while_too_many_bytes_wait() {
        let outbox = Outbox::new(MAX_WAITING_BYTES);
        outbox.send(line(MAX_WAITING_BYTES - 1), || ()).await;
        // A message that is larger than the limit is queued, and the next message waits.
        outbox.send(line(2 * MAX_WAITING_BYTES), || ()).await;
        assert!(outbox.wait_for_room().now_or_never().is_none());
        let mut was_queued = false;
        let dropped = outbox.send(line(1), || was_queued = true);
        assert!(dropped.now_or_never().is_none());
        assert!(!was_queued);
        outbox.send_now(line(2));
        assert_eq!(outbox.waiting_bytes(), 3 * MAX_WAITING_BYTES + 1);
        assert_eq!(outbox.next().await.unwrap().len(), MAX_WAITING_BYTES - 1);
        assert!(outbox.wait_for_room().now_or_never().is_none());
        outbox.next().await.unwrap();
        outbox.wait_for_room().await;
        outbox.close();
        assert_eq!(outbox.next().await.unwrap().len(), 2);
        assert_eq!(outbox.next().await, None);
        assert_eq!(outbox.waiting_bytes(), 0);
    }

    #[tokio::test]
    async fn all_waiting_senders_get_their_turn_though_some_give_up() {
        let outbox = Arc::new(Outbox::new(MAX_WAITING_BYTES));
        outbox.send_now(line(MAX_WAITING_BYTES));
        let senders: Vec<_> = (0..100)
            .map(|number| {
                let outbox = Arc::clone(&outbox);
                let sender = tokio::spawn(async move { outbox.send(line(10), || ()).await });
                (number, sender)
            })
            .collect();
        tokio::task::yield_now().await;
        for (number, sender) in &senders {
            if number % 3 == 0 {
                sender.abort();
            }
        }
        outbox.next().await.unwrap();
        for (number, sender) in senders {
            let ended = tokio::time::timeout(Duration::from_secs(10), sender).await;
            assert_eq!(ended.unwrap().is_ok(), number % 3 != 0);
        }
        assert_eq!(outbox.waiting_bytes(), 66 * 10);
    }
}
