use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// Counts the bytes of a chat's events that the client has not read yet. A slow client pauses the
/// chat, so that a model with an endless response does not fill the memory.
#[derive(Debug)]
pub struct Backlog {
    max_bytes: usize,
    /// The number of bytes that the client has not read yet.
    unread_bytes: AtomicUsize,
    read_notification: Notify,
}

impl Backlog {
    /// Creates an empty backlog, which is full while more than `max_bytes` bytes are unread.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            unread_bytes: AtomicUsize::new(0),
            read_notification: Notify::new(),
        }
    }

    /// Adds unread bytes. Never waits, even if the backlog is full.
    pub fn add(&self, bytes: usize) {
        self.unread_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Subtracts bytes that were read.
    pub fn subtract(&self, bytes: usize) {
        self.unread_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.read_notification.notify_one();
    }

    /// Runs a job that adds unread bytes to the backlog. The job is paused (not polled) while the
    /// backlog is full.
    pub async fn pace<T>(&self, job: impl Future<Output = T>) -> T {
        let mut job = pin!(job);
        loop {
            while self.is_full() {
                self.read_notification.notified().await;
            }
            let job_until_full = poll_fn(|context| match job.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if self.is_full() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            if let Some(output) = job_until_full.await {
                return output;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.unread_bytes.load(Ordering::Acquire) > self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn h6_the_sender_waits_while_much_is_unread() {
        let backlog = Arc::new(Backlog::new(10));
        let added = Arc::new(AtomicUsize::new(0));
        let job = {
            let (backlog, added) = (Arc::clone(&backlog), Arc::clone(&added));
            async move {
                for _ in 0..100 {
                    backlog.add(4);
                    added.fetch_add(4, Ordering::AcqRel);
                    yield_now().await;
                }
                "sent"
            }
        };
        let reader = async {
            let mut read = 0;
            while read < 400 {
                // The job continues up to the limit of the backlog, and no further.
                for _ in 0..50 {
                    yield_now().await;
                }
                let unread = added.load(Ordering::Acquire) - read;
                assert!((1..=12).contains(&unread), "{unread}");
                backlog.subtract(4);
                read += 4;
            }
        };
        let (output, ()) = tokio::join!(backlog.pace(job), reader);
        assert_eq!(output, "sent");
    }
}
