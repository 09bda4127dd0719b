use std::path::Path;

use pillion_core::store::StoreError;

use crate::calls::RecordsOnTheWay;
use crate::database::Database;
use crate::options::StoreOptions;
use crate::sql_store::SqlStore;

impl SqlStore {
    /// Reads the whole store and says what is wrong with it; nothing if all is well. Postgres
    /// checks what it reads by itself, so that nothing is looked for there.
    ///
    /// # Errors
    /// `unavailable`; `corrupt` when it is too damaged to be looked at.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.database.check().await
    }

    /// Copies a store that is a file into a new file of mode 0600, as it is at one moment,
    /// while calls go on, with every call that any process had recorded when this began. The
    /// secrets in it need the same key.
    ///
    /// # Errors
    /// `conflict` when there is such a file; `invalid` for a store that is no file (for
    /// Postgres there is `pg_dump`); `unavailable` when it cannot be written: then there is no
    /// new file.
    pub async fn backup(&self, to: impl AsRef<Path> + Send) -> Result<(), StoreError> {
        let to = to.as_ref();
        // Before the copy: what leaves those files meanwhile is in the database by then.
        let on_the_way = match &self.file {
            Some(file) => RecordsOnTheWay::beside(file)?,
            None => RecordsOnTheWay::default(),
        };
        self.database.backup(to).await?;
        let added = add_to(to, &on_the_way).await;
        if added.is_err() {
            for companion in ["", "-wal", "-shm"] {
                let mut path = to.as_os_str().to_owned();
                path.push(companion);
                let _ = std::fs::remove_file(path); // Mostly there is none.
            }
        }
        added
    }
}

async fn add_to(copy: &Path, records: &RecordsOnTheWay) -> Result<(), StoreError> {
    if records.is_empty() {
        return Ok(());
    }
    let copy = Database::open(&StoreOptions::at_file(copy)).await?;
    let added = records.write_into(&copy).await;
    copy.close().await;
    added
}
