use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// An entry of a log of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number in its log, from 1 without gaps, in which entries count that are kept no longer.
    pub number: u64,
    /// When it was added.
    pub at: Timestamp,
    /// What it says, as JSON.
    pub json: String,
}

/// A log of a pack, with its newest entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// The log's name.
    pub log: String,
    /// The newest entry; its number is that of all entries that there have been.
    pub latest: LogEntry,
}

/// How much of a pack's logs is kept; all by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogBounds {
    /// The entries of one log: the oldest make way for new ones.
    pub most_entries: Option<u32>,
    /// The logs of the pack: another one does not begin, however many would at once.
    pub most_logs: Option<u32>,
}

/// Keeps what packs have to keep, each pack's apart: documents by name, and logs that only grow.
///
/// Names and packs are text of at most 512 bytes; what is kept is JSON, which nobody looks into.
#[async_trait]
pub trait PackStore: Send + Sync {
    /// Puts a document in the place of the one before; whether there was none. There are no more
    /// of the pack than `most`, if that is said, however many are put at once.
    ///
    /// # Errors
    /// `invalid` for a name that is too long, `full` for a new document where there are so many.
    async fn put_document(
        &self,
        pack: &str,
        name: &str,
        json: &str,
        most: Option<u32>,
    ) -> Result<bool, StoreError>;

    /// The document of that name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn document(&self, pack: &str, name: &str) -> Result<Option<String>, StoreError>;

    /// Removes a document; whether there was one. A document that is put at the same time is
    /// there afterwards, or came before.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_document(&self, pack: &str, name: &str) -> Result<bool, StoreError>;

    /// How many documents there are whose names begin with `prefix`.
    ///
    /// # Errors
    /// Errors of the store.
    async fn count_documents(&self, pack: &str, prefix: &str) -> Result<u64, StoreError>;

    /// Documents whose names begin with `prefix`, name and JSON, by name, after the name `after`:
    /// at most `limit`, and no more than 1,000.
    ///
    /// # Errors
    /// Errors of the store.
    async fn documents(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError>;

    /// Adds an entry to a log, which begins with its first entry, and keeps to the bounds.
    ///
    /// # Errors
    /// `invalid` for a name that is too long, `full` for a new log where there are as many as there
    /// may be.
    async fn append_entry(
        &self,
        pack: &str,
        log: &str,
        json: &str,
        at: Timestamp,
        bounds: LogBounds,
    ) -> Result<LogEntry, StoreError>;

    /// The last entries of a log, before the one of number `before` if there is one, oldest
    /// first: at most `limit`, and no more than 1,000. A log that is not there is empty.
    ///
    /// # Errors
    /// Errors of the store.
    async fn last_entries(
        &self,
        pack: &str,
        log: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>, StoreError>;

    /// The logs whose names begin with `prefix`, each with its newest entry, those first that
    /// were added to last: at most `limit`, and no more than 1,000.
    ///
    /// # Errors
    /// Errors of the store.
    async fn logs(
        &self,
        pack: &str,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError>;

    /// The logs whose names begin with `prefix`, each with its newest entry, by name, after the
    /// name `after`: at most `limit`, and no more than 1,000.
    ///
    /// # Errors
    /// Errors of the store.
    async fn logs_by_name(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError>;

    /// How many logs there are whose names begin with `prefix`.
    ///
    /// # Errors
    /// Errors of the store.
    async fn count_logs(&self, pack: &str, prefix: &str) -> Result<u64, StoreError>;

    /// Removes a log with all its entries; whether there was one. An entry that is added at the
    /// same time goes with it, or begins the log anew, with number 1.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_log(&self, pack: &str, log: &str) -> Result<bool, StoreError>;
}
