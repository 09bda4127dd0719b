use std::sync::Arc;

use axum::body::Bytes;
use pillion_mcp_client::RpcError;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use pillion_gateway::calling_client::message;

/// Maximum number of messages that wait for a client.
pub(crate) const MAX_WAITING_MESSAGES: usize = 256;

/// Maximum size of the notifications that wait on an event stream, in bytes.
const MAX_NOTIFICATION_BYTES: u32 = 256 * 1024;

/// A queue of messages for a client, limited in the number and the total size of messages. A
/// message that is larger than the maximum total size is queued alone. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Outgoing>,
    capacity: Arc<Semaphore>,
    max_bytes: u32,
}

/// A message that waits to be written.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(super) message: Bytes,
    /// The permits for the message's bytes in the queue; `None` for a message that
    /// [`send_now`](Outbox::send_now) has queued.
    pub(super) _permit: Option<OwnedSemaphorePermit>,
}

impl From<Bytes> for Outgoing {
    fn from(message: Bytes) -> Self {
        Self {
            message,
            _permit: None,
        }
    }
}

impl Outbox {
    /// Creates a queue for at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: u32) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, messages) = mpsc::channel(MAX_WAITING_MESSAGES);
        let capacity = Arc::new(Semaphore::new(max_bytes as usize));
        let outbox = Self {
            sender,
            capacity,
            max_bytes,
        };
        (outbox, messages)
    }

    /// Creates a queue for the notifications of an event stream.
    pub(super) fn for_notifications() -> (Self, mpsc::Receiver<Outgoing>) {
        Self::new(MAX_NOTIFICATION_BYTES)
    }

    /// Returns the number of permits that a message of this size needs.
    fn compute_permit_count(&self, message: &Bytes) -> u32 {
        let message_bytes = u32::try_from(message.len()).unwrap_or(u32::MAX);
        message_bytes.clamp(1, self.max_bytes)
    }

    /// Queues a message as soon as there is room.
    ///
    /// # Errors
    /// The task that writes the messages has ended.
    pub(super) async fn send(
        &self,
        message: Bytes,
    ) -> Result<(), mpsc::error::SendError<Outgoing>> {
        let permit_request =
            Arc::clone(&self.capacity).acquire_many_owned(self.compute_permit_count(&message));
        // Acquiring a permit cannot fail, because the semaphore is never closed.
        let outgoing = Outgoing {
            message,
            _permit: permit_request.await.ok(),
        };
        self.sender.send(outgoing).await
    }

    /// Queues the response to a request, unless the writer has ended.
    pub(super) async fn respond(
        &self,
        id: Option<&RawValue>,
        outcome: &Result<Box<RawValue>, RpcError>,
    ) {
        drop(self.send(message::response(id, outcome)).await);
    }

    /// Queues a notification if there is room now. A slow client misses notifications.
    pub(super) fn notify(&self, message: Bytes) {
        let permit_result =
            Arc::clone(&self.capacity).try_acquire_many_owned(self.compute_permit_count(&message));
        if let Ok(permit) = permit_result {
            let outgoing = Outgoing {
                message,
                _permit: Some(permit),
            };
            drop(self.sender.try_send(outgoing));
        }
    }

    /// Queues a short message at once, even if the queue then exceeds its maximum size in bytes.
    /// Drops the message if too many messages are queued.
    pub(super) fn send_now(&self, message: Bytes) {
        drop(self.sender.try_send(message.into()));
    }

    /// Returns whether the receiver was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Resolves when the queue has room, after all earlier waiters.
    pub(super) async fn wait_for_room(&self) {
        drop(self.capacity.acquire().await);
    }

    /// Returns a weak sender, for messages that must not keep the writer running.
    pub(super) fn downgrade(&self) -> mpsc::WeakSender<Outgoing> {
        self.sender.downgrade()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn notifications_that_wait_are_limited_in_bytes_and_number() {
        let waiting_lengths = |sizes: &[usize]| {
            let (outbox, mut messages) = Outbox::new(1_000);
            for size in sizes {
                outbox.notify(vec![b'x'; *size].into());
            }
            let queued = std::iter::from_fn(|| messages.try_recv().ok());
            queued
                .map(|outgoing| outgoing.message.len())
                .collect::<Vec<_>>()
        };
        // A smaller notification may still fit after one that was dropped.
        assert_eq!(waiting_lengths(&[400, 400, 400, 200, 1]), [400, 400, 200]);
        assert_eq!(waiting_lengths(&[5_000, 1]), [5_000]);
        assert_eq!(waiting_lengths(&[1, 5_000]), [1]);
        assert_eq!(waiting_lengths(&[1; 300]).len(), MAX_WAITING_MESSAGES);
        let (outbox, mut messages) = Outbox::new(10);
        for _ in 0..100 {
            outbox.notify(vec![b'x'; 10].into());
            assert!(messages.try_recv().is_ok(), "a received message makes room");
        }
    }

    #[tokio::test]
    async fn h6_the_bytes_that_wait_for_a_client_are_limited() {
        const MIB: u32 = 1024 * 1024;
        let (outbox, mut messages) = Outbox::new(32 * MIB);
        let message = Bytes::from(vec![b'x'; MIB as usize]);
        for _ in 0..32 {
            outbox.send(message.clone()).await.unwrap();
        }
        assert!(outbox.wait_for_room().now_or_never().is_none());
        let mut next_send = Box::pin(outbox.send(message.clone()));
        assert!(next_send.as_mut().now_or_never().is_none());
        // A message that was written makes room in the queue.
        drop(messages.recv().await.unwrap());
        next_send.await.unwrap();
        drop(messages);
        assert!(outbox.send(message).await.is_err());
        outbox.wait_for_room().await;
    }
}
