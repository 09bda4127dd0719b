use std::path::Path;

use crate::Result;
use crate::calls::{PendingRecords, list_damaged_files};
use crate::clock::StoreClock;
use crate::database::Database;
use crate::options::StoreOptions;
use crate::sql_store::SqlStore;

impl SqlStore {
    /// Checks the integrity of the whole store and returns the problems; empty if there are none.
    /// Damaged files of recorded calls are reported as problems until the files are removed. Does
    /// nothing for Postgres, which checks data on each read.
    ///
    /// # Errors
    /// `unavailable`; `corrupt` if the store is too damaged to be checked.
    pub async fn check(&self) -> Result<Vec<String>> {
        let mut problems = self.database.check().await?;
        if let Some(file) = &self.file {
            problems.extend(list_damaged_files(file)?);
        }
        Ok(problems)
    }

    /// Copies an SQLite store to a new file of mode 0600 without stopping calls. The copy is a
    /// consistent snapshot, and includes all calls that any process had recorded before the backup
    /// began. The secrets in the copy are encrypted with the same key.
    ///
    /// # Errors
    /// `conflict` if the file exists; `invalid` for a store that is not a file (use `pg_dump` for
    /// Postgres); `unavailable` if the copy cannot be written. After an error, there is no new
    /// file.
    pub async fn backup(&self, path: impl AsRef<Path> + Send) -> Result<()> {
        let copy_path = path.as_ref();
        // The spool files are read before the copy: records that leave the spool files later are in
        // the database by then, and thus in the copy.
        let pending_records = match &self.file {
            Some(file) => PendingRecords::for_database(file)?,
            None => PendingRecords::default(),
        };
        self.database.backup(copy_path).await?;
        let outcome = add_records(copy_path, &pending_records).await;
        if outcome.is_err() {
            for suffix in ["", "-wal", "-shm"] {
                let mut file = copy_path.as_os_str().to_owned();
                file.push(suffix);
                // An error of the removal is ignored, because the file usually does not exist.
                let _ = std::fs::remove_file(file);
            }
        }
        outcome
    }
}

async fn add_records(copy_path: &Path, records: &PendingRecords) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let copied_database = Database::open(&StoreOptions::at_file(copy_path)).await?;
    let outcome = records
        .write_into(&copied_database, &StoreClock::new(copied_database.clone()))
        .await;
    copied_database.close().await;
    outcome
}
