use std::fs;
use std::path::Path;

use pillion_core::store::StoreError;
use sqlx::Executor;

use super::{Database, sqlite, translate};

impl Database {
    /// Returns the space of removed records to the file system. Does nothing for Postgres, which
    /// frees space itself.
    pub(crate) async fn shrink(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite { .. } => {
                let sql = "PRAGMA incremental_vacuum(4000)";
                self.write(sql, vec![]).await.map(drop)
            }
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Runs `PRAGMA integrity_check` and returns the problems that it reports; always empty for
    /// Postgres.
    pub(crate) async fn check(&self) -> Result<Vec<String>, StoreError> {
        let sql = match self {
            Self::Sqlite { .. } => "PRAGMA integrity_check",
            Self::Postgres(_) => "SELECT 'ok' AS integrity_check",
        };
        let rows = self.read(sql, vec![]).await?;
        let mut problems: Vec<String> = rows
            .iter()
            .map(|row| row.text("integrity_check"))
            .collect::<Result<_, _>>()?;
        problems.retain(|line| line != "ok");
        Ok(problems)
    }

    /// Copies the SQLite file to `to`, which must not exist.
    pub(crate) async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let Self::Sqlite {
            readers,
            files: Some(files),
            ..
        } = self
        else {
            return Err(StoreError::invalid("only a store in a file can be copied"));
        };
        let Some(path) = to.to_str() else {
            return Err(StoreError::invalid(
                "the path of the copy is not valid UTF-8",
            ));
        };
        let failed = |source| {
            let message = format!("cannot create the copy '{path}': {source}");
            StoreError::unavailable(message).with_source(source)
        };
        if to.try_exists().map_err(failed)? {
            let message = if to.is_dir() {
                format!("'{path}' is a directory: give the path of a file for the copy")
            } else {
                format!("the file '{path}' already exists")
            };
            return Err(StoreError::conflict(message));
        }
        files.check()?;
        // The file is created first, to set its mode; SQLite accepts an empty file.
        sqlite::create_new(to).map_err(failed)?;
        let mut connection = readers.acquire().await.map_err(translate)?;
        let copied = async {
            (&mut *connection)
                .execute("PRAGMA query_only = OFF")
                .await?;
            let copy = sqlx::query("VACUUM INTO $1").bind(path);
            copy.execute(&mut *connection).await
        }
        .await;
        // The connection has become writable, so it must not return to the pool.
        let closed = connection.close().await;
        if let Err(error) = copied.map(drop).and(closed) {
            // Removes the incomplete copy. The first error is returned, even if the removal fails.
            let _ = fs::remove_file(to);
            return Err(translate(error));
        }
        Ok(())
    }
}
