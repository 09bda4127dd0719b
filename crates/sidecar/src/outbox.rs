//! A queue of messages to a client, limited in bytes.

use std::collections::VecDeque;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The queued messages to a client. Senders wait while `max_bytes` bytes or more are queued, so a
/// message that is longer is queued alone.
#[derive(Debug)]
pub(crate) struct Outbox<M> {
    state: Mutex<OutboxState<M>>,
    max_bytes: usize,
    /// Notified when the queue may have room for a sender.
    room: Notify,
    /// Notified when there is a message to write, or the outbox is closed.
    filled: Notify,
}

#[derive(Debug)]
struct OutboxState<M> {
    messages: VecDeque<M>,
    bytes: usize,
    is_closed: bool,
}

impl<M: AsRef<[u8]>> Outbox<M> {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            state: Mutex::new(OutboxState {
                messages: VecDeque::new(),
                bytes: 0,
                is_closed: false,
            }),
            max_bytes,
            room: Notify::new(),
            filled: Notify::new(),
        }
    }

    /// Queues a message as soon as there is room, and calls `queued` under the same lock. Dropping
    /// the future before that queues nothing.
    pub(crate) async fn send(&self, mut message: M, mut queued: impl FnMut()) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // Registered before the check, so that no notification is missed.
            room.as_mut().enable();
            match self.try_send(message, &mut queued) {
                Ok(()) => return,
                Err(back) => message = back,
            }
            room.await;
        }
    }

    fn try_send(&self, message: M, queued: &mut impl FnMut()) -> Result<(), M> {
        let mut state = self.state.lock();
        if state.bytes >= self.max_bytes {
            return Err(message);
        }
        queued();
        self.push(&mut state, message);
        // One notification may stand for room for many messages, so the next sender is notified.
        if state.bytes < self.max_bytes {
            self.room.notify_one();
        }
        Ok(())
    }

    /// Queues a message at once, even above the limit. The caller limits the number and size of
    /// such messages.
    pub(crate) fn send_now(&self, message: M) {
        self.push(&mut self.state.lock(), message);
    }

    fn push(&self, state: &mut OutboxState<M>, message: M) {
        state.bytes += message.as_ref().len();
        state.messages.push_back(message);
        self.filled.notify_one();
    }

    fn is_full(&self) -> bool {
        self.state.lock().bytes >= self.max_bytes
    }

    /// Resolves when the queue has room. Cancel-safe.
    pub(crate) async fn has_room(&self) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            if !self.is_full() {
                // The next waiter is notified, because this caller queues nothing.
                self.room.notify_one();
                return;
            }
            room.await;
        }
    }

    /// Returns the next message; `None` when the outbox is closed and empty. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<M> {
        loop {
            let filled = self.filled.notified();
            if let Poll::Ready(message) = self.try_next() {
                return message;
            }
            filled.await;
        }
    }

    fn try_next(&self) -> Poll<Option<M>> {
        let mut state = self.state.lock();
        match state.messages.pop_front() {
            Some(message) => {
                state.bytes -= message.as_ref().len();
                self.room.notify_one();
                Poll::Ready(Some(message))
            }
            None if state.is_closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Closes the outbox after the queued messages are written.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.filled.notify_one();
    }

    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.state.lock().bytes
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
        assert!(outbox.has_room().now_or_never().is_none());
        let mut was_queued = false;
        let dropped = outbox.send(line(1), || was_queued = true);
        assert!(dropped.now_or_never().is_none());
        assert!(!was_queued);
        outbox.send_now(line(2));
        assert_eq!(outbox.waiting_bytes(), 3 * MAX_WAITING_BYTES + 1);
        assert_eq!(outbox.next().await.unwrap().len(), MAX_WAITING_BYTES - 1);
        assert!(outbox.has_room().now_or_never().is_none());
        outbox.next().await.unwrap();
        outbox.has_room().await;
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
