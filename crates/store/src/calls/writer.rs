use std::collections::VecDeque;
use std::sync::Arc;

use pillion_core::store::{StoreError, ToolCallRecord};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Semaphore, oneshot};

use super::batch::{self, MAX_BATCH_SIZE, QueuedRecord, Statements};
use super::{closed, copy_error, record};
use crate::clock::StoreClock;
use crate::database::Database;

/// Maximum number of queued records.
const MAX_QUEUED_RECORDS: usize = 4_096;
/// Maximum total size of the queued records, in KiB.
const MAX_QUEUED_KIB: u32 = 64 * 1024;

enum WriterMessage {
    Write(Box<QueuedRecord>),
    Finish(oneshot::Sender<()>),
}

/// Writes call records: a task commits all queued records together, so that many callers share one
/// commit, and a single caller does not wait for other callers.
#[derive(Debug)]
pub(crate) struct CallWriter {
    queue: Sender<WriterMessage>,
    capacity: Arc<Semaphore>,
}

impl CallWriter {
    /// Starts the task that writes records. The task ends when the writer is dropped.
    pub(crate) fn start(database: Database, clock: StoreClock) -> Self {
        let (queue, messages) = mpsc::channel(MAX_QUEUED_RECORDS);
        let writer = RecordWriter {
            statements: Statements::new(&database, clock),
            database,
            waiting: VecDeque::new(),
            finishing: None,
        };
        tokio::spawn(writer.run(messages));
        let capacity = Arc::new(Semaphore::new(MAX_QUEUED_KIB as usize));
        Self { queue, capacity }
    }

    /// Stores a record. The record is committed when this method returns.
    pub(crate) async fn write(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        let kib = u32::try_from(record::bytes(&call) / 1024).unwrap_or(u32::MAX);
        // A record larger than the limit is queued alone.
        let _permit = Arc::clone(&self.capacity)
            .try_acquire_many_owned(kib.clamp(1, MAX_QUEUED_KIB))
            .map_err(|_| queue_full())?;
        let (done, outcome) = oneshot::channel();
        let job = QueuedRecord {
            call,
            done,
            _permit,
        };
        let queued = self.queue.try_send(WriterMessage::Write(Box::new(job)));
        queued.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => queue_full(),
            mpsc::error::TrySendError::Closed(_) => closed(),
        })?;
        outcome.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Writes the queued records. Later records are rejected.
    pub(crate) async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        if self.queue.send(WriterMessage::Finish(done)).await.is_ok() {
            // An error means that the task has already ended.
            let _ = finished.await;
        }
    }
}

struct RecordWriter {
    database: Database,
    statements: Statements,
    waiting: VecDeque<QueuedRecord>,
    /// The channel to the caller of `finish`, which has closed the queue.
    finishing: Option<oneshot::Sender<()>>,
}

impl RecordWriter {
    async fn run(mut self, mut messages: Receiver<WriterMessage>) {
        while !self.waiting.is_empty() || self.wait(&mut messages).await {
            self.gather(&mut messages, MAX_BATCH_SIZE);
            let batch = batch::take(&mut self.waiting);
            if let Err(failure) = Box::pin(self.write(batch)).await {
                // The other queued records would fail in the same way, each after the same wait.
                self.gather(&mut messages, MAX_QUEUED_RECORDS);
                for job in self.waiting.drain(..) {
                    job.finish(Err(copy_error(&failure)));
                }
            }
        }
        if let Some(finished) = self.finishing {
            let _ = finished.send(()); // The caller may no longer be waiting.
        }
    }

    /// Waits for a record; returns `false` if the queue is closed.
    async fn wait(&mut self, messages: &mut Receiver<WriterMessage>) -> bool {
        while self.waiting.is_empty() {
            let Some(message) = messages.recv().await else {
                return false;
            };
            self.accept(message, messages);
        }
        // Yields, so that other tasks queue their records first.
        tokio::task::yield_now().await;
        true
    }

    /// Takes messages from the queue until `max` records wait.
    fn gather(&mut self, messages: &mut Receiver<WriterMessage>, max: usize) {
        while self.waiting.len() < max {
            let Ok(message) = messages.try_recv() else {
                return;
            };
            self.accept(message, messages);
        }
    }

    fn accept(&mut self, message: WriterMessage, messages: &mut Receiver<WriterMessage>) {
        match message {
            WriterMessage::Write(job) => self.waiting.push_back(*job),
            WriterMessage::Finish(done) => {
                messages.close();
                self.finishing = Some(done);
            }
        }
    }

    /// Writes a batch and sends the outcome to its callers.
    ///
    /// # Errors
    /// `unavailable`: the database cannot be written at present.
    async fn write(&self, batch: Vec<QueuedRecord>) -> Result<(), Arc<StoreError>> {
        let calls = batch.iter().map(|job| &job.call);
        match self.statements.write(&self.database, calls).await {
            Ok(written) if written == batch.len() => {
                for job in batch {
                    job.finish(Ok(()));
                }
                Ok(())
            }
            Ok(_) => {
                for job in batch {
                    let outcome = batch::check_written(&self.database, &job.call).await;
                    job.finish(outcome);
                }
                Ok(())
            }
            Err(failure) if failure.is_unavailable() => {
                let failure = Arc::new(failure);
                for job in batch {
                    job.finish(Err(copy_error(&failure)));
                }
                Err(failure)
            }
            Err(failure) => {
                Box::pin(self.write_each(batch, failure)).await;
                Ok(())
            }
        }
    }

    /// Writes the records of a batch one by one, because one record was rejected and the others may
    /// be valid.
    async fn write_each(&self, batch: Vec<QueuedRecord>, failure: StoreError) {
        let jobs = match <[QueuedRecord; 1]>::try_from(batch) {
            Ok([job]) => return job.finish(Err(failure)),
            Err(batch) => batch,
        };
        for job in jobs {
            let calls = std::iter::once(&job.call);
            let outcome = match self.statements.write(&self.database, calls).await {
                Ok(0) => batch::check_written(&self.database, &job.call).await,
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            job.finish(outcome);
        }
    }
}

fn queue_full() -> StoreError {
    StoreError::unavailable("the write queue of the call log is full")
}
