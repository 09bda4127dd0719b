use std::path::Path;

use pillion_core::store::StoreError;

use crate::calls::{PendingRecords, damaged_files};
use crate::clock::StoreClock;
use crate::database::Database;
use crate::options::StoreOptions;
use crate::sql_store::SqlStore;

impl SqlStore {
    /// Checks the integrity of the whole store and returns the problems; empty if there are none.
    /// Damaged files of recorded calls are problems until the files are removed. Does nothing for
    /// Postgres, which checks data on each read.
    ///
    /// # Errors
    /// `unavailable`; `corrupt` if the store is too damaged to be checked.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut problems = self.database.check().await?;
        if let Some(file) = &self.file {
            problems.extend(damaged_files(file)?);
        }
        Ok(problems)
    }

    /// Copies an SQLite store to a new file of mode 0600 without stopping calls. The copy is a
    /// consistent snapshot, and includes all calls that any process had recorded before the backup
    /// began. The secrets in the copy require the same key.
    ///
    /// # Errors
    /// `conflict` if the file exists; `invalid` for a store that is not a file (use `pg_dump` for
    /// Postgres); `unavailable` if the copy cannot be written; then there is no new file.
    pub async fn backup(&self, to: impl AsRef<Path> + Send) -> Result<(), StoreError> {
        let to = to.as_ref();
        // The spool files are read before the copy: records that leave the spool files later are in
        // the database by then, and thus in the copy.
        let on_the_way = match &self.file {
            Some(file) => PendingRecords::for_database(file)?,
            None => PendingRecords::default(),
        };
        self.database.backup(to).await?;
        let added = add_to(to, &on_the_way).await;
        if added.is_err() {
            for companion in ["", "-wal", "-shm"] {
                let mut path = to.as_os_str().to_owned();
                path.push(companion);
                let _ = std::fs::remove_file(path); // The file usually does not exist.
            }
        }
        added
    }
}

async fn add_to(copy: &Path, records: &PendingRecords) -> Result<(), StoreError> {
    if records.is_empty() {
        return Ok(());
    }
    let copy = Database::open(&StoreOptions::at_file(copy)).await?;
    let added = records
        .write_into(&copy, &StoreClock::new(copy.clone()))
        .await;
    copy.close().await;
    added
}
