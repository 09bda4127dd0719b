use std::collections::VecDeque;
use std::sync::Arc;

use pillion_core::store::{StoreError, ToolCallRecord};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Semaphore, oneshot};

use super::batch::{self, InsertStatements, MAX_BATCH_SIZE, QueuedRecord};
use super::{closed_error, copy_error, record};
use crate::Result;
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

/// Writes call records. A task commits all records that are queued at the time together, so that
/// many callers share one commit, and the record of a single caller is committed without waiting
/// for other records.
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
            statements: InsertStatements::new(&database, clock),
            database,
            waiting_records: VecDeque::new(),
            finish_sender: None,
        };
        tokio::spawn(writer.run(messages));
        let capacity = Arc::new(Semaphore::new(MAX_QUEUED_KIB as usize));
        Self { queue, capacity }
    }

    /// Stores a record. The record is committed when this method returns.
    pub(crate) async fn write(&self, call: ToolCallRecord) -> Result<()> {
        let record_kib = u32::try_from(record::count_bytes(&call) / 1024).unwrap_or(u32::MAX);
        // A record that is larger than the maximum size of the queue counts as large as that
        // maximum, so the record is queued alone.
        let _permit = Arc::clone(&self.capacity)
            .try_acquire_many_owned(record_kib.clamp(1, MAX_QUEUED_KIB))
            .map_err(|_| queue_full_error())?;
        let (outcome_sender, outcome_receiver) = oneshot::channel();
        let record = QueuedRecord {
            call,
            outcome_sender,
            _permit,
        };
        let send_result = self.queue.try_send(WriterMessage::Write(Box::new(record)));
        send_result.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => queue_full_error(),
            mpsc::error::TrySendError::Closed(_) => closed_error(),
        })?;
        outcome_receiver
            .await
            .unwrap_or_else(|_| Err(closed_error()))
    }

    /// Writes the queued records. Later records are rejected.
    pub(crate) async fn finish(&self) {
        let (finish_sender, finish_receiver) = oneshot::channel();
        let message = WriterMessage::Finish(finish_sender);
        if self.queue.send(message).await.is_ok() {
            // An error means that the task has already ended.
            let _ = finish_receiver.await;
        }
    }
}

struct RecordWriter {
    database: Database,
    statements: InsertStatements,
    waiting_records: VecDeque<QueuedRecord>,
    /// The channel for the reply to `finish`; set when `finish` has closed the queue.
    finish_sender: Option<oneshot::Sender<()>>,
}

impl RecordWriter {
    async fn run(mut self, mut messages: Receiver<WriterMessage>) {
        while !self.waiting_records.is_empty() || self.wait_for_record(&mut messages).await {
            self.gather(&mut messages, MAX_BATCH_SIZE);
            let batch = batch::take_batch(&mut self.waiting_records);
            if let Err(failure) = Box::pin(self.write(batch)).await {
                // All queued records get the same error at once, because each of them would
                // otherwise wait for another batch that also fails.
                self.gather(&mut messages, MAX_QUEUED_RECORDS);
                for record in self.waiting_records.drain(..) {
                    record.finish(Err(copy_error(&failure)));
                }
            }
        }
        if let Some(sender) = self.finish_sender {
            let _ = sender.send(()); // An error means that the caller has stopped waiting.
        }
    }

    /// Waits for a record; returns `false` if the queue is closed.
    async fn wait_for_record(&mut self, messages: &mut Receiver<WriterMessage>) -> bool {
        while self.waiting_records.is_empty() {
            let Some(message) = messages.recv().await else {
                return false;
            };
            self.accept(message, messages);
        }
        // Yields once, so that other tasks can add their records to the same batch.
        tokio::task::yield_now().await;
        true
    }

    /// Takes messages from the queue until `max_records` records wait.
    fn gather(&mut self, messages: &mut Receiver<WriterMessage>, max_records: usize) {
        while self.waiting_records.len() < max_records {
            let Ok(message) = messages.try_recv() else {
                return;
            };
            self.accept(message, messages);
        }
    }

    fn accept(&mut self, message: WriterMessage, messages: &mut Receiver<WriterMessage>) {
        match message {
            WriterMessage::Write(record) => self.waiting_records.push_back(*record),
            WriterMessage::Finish(sender) => {
                messages.close();
                self.finish_sender = Some(sender);
            }
        }
    }

    /// Writes a batch and sends the outcome to its callers.
    ///
    /// # Errors
    /// `unavailable`: the database cannot be written at present.
    async fn write(&self, batch: Vec<QueuedRecord>) -> Result<(), Arc<StoreError>> {
        let calls = batch.iter().map(|record| &record.call);
        match self.statements.write(&self.database, calls).await {
            Ok(written_count) if written_count == batch.len() => {
                for record in batch {
                    record.finish(Ok(()));
                }
                Ok(())
            }
            Ok(_) => {
                for record in batch {
                    let outcome = batch::check_written(&self.database, &record.call).await;
                    record.finish(outcome);
                }
                Ok(())
            }
            Err(failure) if failure.is_unavailable() => {
                let shared_failure = Arc::new(failure);
                for record in batch {
                    record.finish(Err(copy_error(&shared_failure)));
                }
                Err(shared_failure)
            }
            Err(failure) => {
                Box::pin(self.write_each(batch, failure)).await;
                Ok(())
            }
        }
    }

    /// Writes the records of a batch one by one, because the database rejected one of the records
    /// and the other records may be valid.
    async fn write_each(&self, batch: Vec<QueuedRecord>, failure: StoreError) {
        let records = match <[QueuedRecord; 1]>::try_from(batch) {
            Ok([record]) => return record.finish(Err(failure)),
            Err(batch) => batch,
        };
        for record in records {
            let calls = std::iter::once(&record.call);
            let outcome = match self.statements.write(&self.database, calls).await {
                Ok(0) => batch::check_written(&self.database, &record.call).await,
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            record.finish(outcome);
        }
    }
}

fn queue_full_error() -> StoreError {
    StoreError::unavailable(format!(
        "the write queue of the call log is full: it holds {MAX_QUEUED_RECORDS} records or \
        {MAX_QUEUED_KIB} KiB"
    ))
}
