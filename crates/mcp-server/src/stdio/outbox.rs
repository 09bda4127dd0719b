use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::MAX_WAITING;

/// Maximum size of all messages that wait for a client, in KiB. A larger message waits alone.
const MAX_WAITING_KIB: u32 = 32 * 1024;

/// A queue of messages for a client, limited in bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct StdioOutbox {
    sender: mpsc::Sender<Outgoing>,
    room: Arc<Semaphore>,
}

/// A message that waits to be written.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(super) message: Bytes,
    /// The permit for the message's bytes.
    pub(super) _room: Option<OwnedSemaphorePermit>,
}

impl From<Bytes> for Outgoing {
    fn from(message: Bytes) -> Self {
        Self {
            message,
            _room: None,
        }
    }
}

impl StdioOutbox {
    pub(super) fn new() -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, messages) = mpsc::channel(MAX_WAITING);
        let room = Arc::new(Semaphore::new(MAX_WAITING_KIB as usize));
        (Self { sender, room }, messages)
    }

    /// Queues a message as soon as there is room.
    ///
    /// # Errors
    /// When the writer has ended.
    pub(super) async fn send(
        &self,
        message: Bytes,
    ) -> Result<(), mpsc::error::SendError<Outgoing>> {
        let kib = u32::try_from(message.len() / 1024).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(kib.clamp(1, MAX_WAITING_KIB));
        // The semaphore is never closed.
        let outgoing = Outgoing {
            message,
            _room: room.await.ok(),
        };
        self.sender.send(outgoing).await
    }

    /// Queues a message if there is a free slot at once; otherwise drops the message.
    pub(super) fn try_send(&self, message: Bytes) {
        drop(self.sender.try_send(message.into()));
    }

    /// Resolves when there is room, after all earlier waiters.
    pub(super) async fn has_room(&self) {
        drop(self.room.acquire().await);
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

    #[tokio::test]
    async fn h6_the_bytes_that_wait_for_a_client_are_limited() {
        let (outbox, mut messages) = StdioOutbox::new();
        let message = Bytes::from(vec![b'x'; 1024 * 1024]);
        let fits = MAX_WAITING_KIB / 1024;
        for _ in 0..fits {
            outbox.send(message.clone()).await.unwrap();
        }
        assert!(outbox.has_room().now_or_never().is_none());
        let mut next = Box::pin(outbox.send(message.clone()));
        assert!(next.as_mut().now_or_never().is_none());
        // A written message makes room.
        drop(messages.recv().await.unwrap());
        next.await.unwrap();
        drop(messages);
        assert!(outbox.send(message).await.is_err());
        outbox.has_room().await;
    }
}
