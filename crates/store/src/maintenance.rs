use std::path::Path;

use pillion_core::store::StoreError;

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
    /// while calls go on. The secrets in it need the same key.
    ///
    /// # Errors
    /// `conflict` when there is such a file; `invalid` for a store that is no file (for
    /// Postgres there is `pg_dump`); `unavailable` when it cannot be written: then there is no
    /// new file.
    pub async fn backup(&self, to: impl AsRef<Path> + Send) -> Result<(), StoreError> {
        self.database.backup(to.as_ref()).await
    }
}
