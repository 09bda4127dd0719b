use std::sync::Arc;

use async_trait::async_trait;
use pillion_core::store::{LogBounds, LogEntry, LogSummary, PackStore, StoreError, Timestamp};
use pillion_store::SqlStore;
use tokio::sync::Semaphore;

/// A store whose log writes wait for a permit.
pub struct Gated {
    pub store: Arc<SqlStore>,
    /// Gets a permit for each write that has arrived.
    pub waiting: Semaphore,
    /// The permits of the writes that may continue.
    pub may_append: Semaphore,
}

#[async_trait]
impl PackStore for Gated {
    async fn put_document(
        &self,
        pack: &str,
        name: &str,
        json: &str,
        max: Option<u32>,
    ) -> Result<bool, StoreError> {
        self.store.put_document(pack, name, json, max).await
    }

    async fn find_document(&self, pack: &str, name: &str) -> Result<Option<String>, StoreError> {
        self.store.find_document(pack, name).await
    }

    async fn remove_document(&self, pack: &str, name: &str) -> Result<bool, StoreError> {
        self.store.remove_document(pack, name).await
    }

    async fn count_documents(&self, pack: &str, prefix: &str) -> Result<u64, StoreError> {
        self.store.count_documents(pack, prefix).await
    }

    async fn documents(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        self.store.documents(pack, prefix, after, limit).await
    }

    async fn append_entry(
        &self,
        pack: &str,
        log: &str,
        json: &str,
        at: Timestamp,
        bounds: LogBounds,
    ) -> Result<LogEntry, StoreError> {
        self.waiting.add_permits(1);
        let permit = self.may_append.acquire().await;
        permit.unwrap().forget();
        self.store.append_entry(pack, log, json, at, bounds).await
    }

    async fn last_entries(
        &self,
        pack: &str,
        log: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.store.last_entries(pack, log, before, limit).await
    }

    async fn logs(
        &self,
        pack: &str,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError> {
        self.store.logs(pack, prefix, limit).await
    }

    async fn logs_by_name(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError> {
        self.store.logs_by_name(pack, prefix, after, limit).await
    }

    async fn count_logs(&self, pack: &str, prefix: &str) -> Result<u64, StoreError> {
        self.store.count_logs(pack, prefix).await
    }

    async fn remove_log(&self, pack: &str, log: &str) -> Result<bool, StoreError> {
        self.store.remove_log(pack, log).await
    }
}
