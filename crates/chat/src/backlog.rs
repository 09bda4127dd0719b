use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// What was told of a chat and is not read yet: whoever reads slowly has the chat rest, so that a model
/// that talks without end fills no memory.
#[derive(Debug)]
pub struct Backlog {
    most: usize,
    /// In bytes.
    unread: AtomicUsize,
    was_read: Notify,
}

impl Backlog {
    /// An empty one, which is full with more than `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            unread: AtomicUsize::new(0),
            was_read: Notify::new(),
        }
    }

    /// Notes that so many bytes were told. There is room for everything: who tells does not wait.
    pub fn tell(&self, bytes: usize) {
        self.unread.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Notes that so many bytes of what was told were read.
    pub fn read(&self, bytes: usize) {
        self.unread.fetch_sub(bytes, Ordering::AcqRel);
        self.was_read.notify_one();
    }

    /// Runs a job that tells things. It rests, which is that it is not polled, while the backlog is
    /// full.
    pub async fn pace<T>(&self, job: impl Future<Output = T>) -> T {
        let mut job = pin!(job);
        loop {
            while self.is_full() {
                self.was_read.notified().await;
            }
            let turn = poll_fn(|context| match job.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if self.is_full() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            if let Some(output) = turn.await {
                return output;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.unread.load(Ordering::Acquire) > self.most
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn h6_who_tells_rests_while_much_is_unread() {
        let backlog = Arc::new(Backlog::new(10));
        let told = Arc::new(AtomicUsize::new(0));
        let job = {
            let (backlog, told) = (Arc::clone(&backlog), Arc::clone(&told));
            async move {
                for _ in 0..100 {
                    backlog.tell(4);
                    told.fetch_add(4, Ordering::AcqRel);
                    yield_now().await;
                }
                "said"
            }
        };
        let reader = async {
            let mut read = 0;
            while read < 400 {
                // It comes as far as it may, and no further.
                for _ in 0..50 {
                    yield_now().await;
                }
                let unread = told.load(Ordering::Acquire) - read;
                assert!((1..=12).contains(&unread), "{unread}");
                backlog.read(4);
                read += 4;
            }
        };
        let (said, ()) = tokio::join!(backlog.pace(job), reader);
        assert_eq!(said, "said");
    }
}
