use std::fs;
use std::path::Path;

use pillion_core::store::StoreError;
use sqlx::Executor;

use super::{Database, sqlite, translate};
use crate::Result;

impl Database {
    /// Returns the space of removed records to the file system. Does nothing for Postgres, which
    /// frees space itself.
    pub(crate) async fn shrink(&self) -> Result<()> {
        match self {
            Self::Sqlite { .. } => {
                let sql = "PRAGMA incremental_vacuum(4000)";
                self.write(sql, vec![]).await.map(drop)
            }
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Runs `PRAGMA integrity_check` and returns the reported problems; always empty for
    /// Postgres.
    pub(crate) async fn check(&self) -> Result<Vec<String>> {
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

    /// Copies the SQLite file to `copy_path`, which must not exist.
    pub(crate) async fn backup(&self, copy_path: &Path) -> Result<()> {
        let Self::Sqlite {
            readers,
            files: Some(files),
            ..
        } = self
        else {
            return Err(StoreError::invalid(
                "only a store in a file can be copied: use pg_dump for Postgres",
            ));
        };
        let Some(path) = copy_path.to_str() else {
            return Err(StoreError::invalid(
                "the path of the copy is not valid UTF-8",
            ));
        };
        let to_copy_error = |source| {
            let message = format!("cannot create the copy '{path}': {source}");
            StoreError::unavailable(message).with_source(source)
        };
        if copy_path.try_exists().map_err(to_copy_error)? {
            let message = if copy_path.is_dir() {
                format!("'{path}' is a directory: give the path of a file for the copy")
            } else {
                format!("the file '{path}' already exists")
            };
            return Err(StoreError::conflict(message));
        }
        files.check()?;
        // The file is created before SQLite opens it, to set the mode of the file; SQLite accepts
        // an empty file.
        sqlite::create_new(copy_path).map_err(to_copy_error)?;
        let mut connection = readers.acquire().await.map_err(translate)?;
        let copy_outcome = async {
            (&mut *connection)
                .execute("PRAGMA query_only = OFF")
                .await?;
            let copy_statement = sqlx::query("VACUUM INTO $1").bind(path);
            copy_statement.execute(&mut *connection).await
        }
        .await;
        // The connection is closed, because it has become writable and must not return to the pool.
        let close_outcome = connection.close().await;
        if let Err(error) = copy_outcome.map(drop).and(close_outcome) {
            // Removes the incomplete copy. If the removal fails too, the error of the copy is
            // returned.
            let _ = fs::remove_file(copy_path);
            return Err(translate(error));
        }
        Ok(())
    }
}
