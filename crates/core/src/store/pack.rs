use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// An entry of one of the append-only logs in which a [pack](crate::pack::Pack) stores data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The number of the entry in its log. Entries are numbered from 1 in the order in which they
    /// are added; the number of a removed entry is not used again.
    pub number: u64,
    /// The time at which the entry was added.
    pub added_at: Timestamp,
    /// The content of the entry, as JSON.
    pub json: String,
}

/// A pack's log, with its newest entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// The name of the log, unique within its pack.
    pub log: String,
    /// The newest entry. Its [`number`](LogEntry::number) is also the count of entries ever added
    /// to the log.
    pub latest: LogEntry,
}

/// Retention limits of a pack's logs; unlimited by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogBounds {
    /// Maximum number of entries of each log. The oldest entries are removed.
    pub max_entries: Option<u32>,
    /// Maximum number of logs of the pack. Further logs are rejected, also under concurrency.
    pub max_logs: Option<u32>,
}

/// Stores the data of packs, separately for each pack: documents by name, and append-only logs.
///
/// Names of packs, documents and logs have at most 512 bytes. Contents are JSON and opaque to the
/// store.
#[async_trait]
pub trait PackStore: Send + Sync {
    /// Stores a document, replacing any other with this name. Returns whether the document is new.
    /// The pack never has more than `max` documents, if given, even under concurrency.
    ///
    /// # Errors
    /// `invalid` if the name is too long, `full` if the document is new and the pack has `max`
    /// documents.
    async fn put_document(
        &self,
        pack: &str,
        name: &str,
        json: &str,
        max: Option<u32>,
    ) -> Result<bool, StoreError>;

    /// Returns the document with this name.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_document(&self, pack: &str, name: &str) -> Result<Option<String>, StoreError>;

    /// Removes a document, and returns whether it existed.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_document(&self, pack: &str, name: &str) -> Result<bool, StoreError>;

    /// Counts the documents whose names begin with `prefix`.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn count_documents(&self, pack: &str, prefix: &str) -> Result<u64, StoreError>;

    /// Returns documents (name and JSON) whose names begin with `prefix` and sort after `after`,
    /// ordered by name: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn documents(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError>;

    /// Adds an entry to a log, creating the log if necessary, and enforces `bounds`.
    ///
    /// # Errors
    /// `invalid` if the name is too long, `full` if the log is new and the pack has the maximum
    /// number of logs.
    async fn append_entry(
        &self,
        pack: &str,
        log: &str,
        json: &str,
        at: Timestamp,
        bounds: LogBounds,
    ) -> Result<LogEntry, StoreError>;

    /// Returns the newest entries of a log whose numbers are below `before`, if given, oldest
    /// first: at most `limit`, and at most 1,000. A log that does not exist is empty.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn last_entries(
        &self,
        pack: &str,
        log: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>, StoreError>;

    /// Returns the logs whose names begin with `prefix`, each with its newest entry, most recently
    /// changed first: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn logs(
        &self,
        pack: &str,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError>;

    /// Returns the logs whose names begin with `prefix` and sort after `after`, each with its
    /// newest entry, ordered by name: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn logs_by_name(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError>;

    /// Counts the logs whose names begin with `prefix`.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn count_logs(&self, pack: &str, prefix: &str) -> Result<u64, StoreError>;

    /// Removes a log with all its entries, and returns whether it existed. A concurrently added
    /// entry is removed too, or starts a new log with number 1.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_log(&self, pack: &str, log: &str) -> Result<bool, StoreError>;
}
