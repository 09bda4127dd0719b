use pillion_core::store::{CallId, StoreError, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row as _, Sqlite};

use crate::Result;

/// A row of a query's result. Reading an invalid value returns a `corrupt` error.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn text(&self, column: &str) -> Result<String> {
        self.value(column)
    }

    pub(crate) fn optional_text(&self, column: &str) -> Result<Option<String>> {
        self.value(column)
    }

    pub(crate) fn integer(&self, column: &str) -> Result<i64> {
        self.value(column)
    }

    pub(crate) fn optional_integer(&self, column: &str) -> Result<Option<i64>> {
        self.value(column)
    }

    pub(crate) fn bytes(&self, column: &str) -> Result<Vec<u8>> {
        self.value(column)
    }

    pub(crate) fn count(&self, column: &str) -> Result<u64> {
        u64::try_from(self.integer(column)?).map_err(|_| unreadable_column(column))
    }

    pub(crate) fn timestamp(&self, column: &str) -> Result<Timestamp> {
        self.integer(column).map(Timestamp::from_millis)
    }

    pub(crate) fn optional_timestamp(&self, column: &str) -> Result<Option<Timestamp>> {
        Ok(self.optional_integer(column)?.map(Timestamp::from_millis))
    }

    pub(crate) fn call_id(&self, column: &str) -> Result<CallId> {
        CallId::try_from(&self.bytes(column)?[..]).map_err(|_| unreadable_column(column))
    }

    pub(crate) fn optional_call_id(&self, column: &str) -> Result<Option<CallId>> {
        let bytes: Option<Vec<u8>> = self.value(column)?;
        let id = bytes.map(|bytes| CallId::try_from(&bytes[..]));
        id.transpose().map_err(|_| unreadable_column(column))
    }

    fn value<T>(&self, column: &str) -> Result<T>
    where
        T: for<'r> Decode<'r, Sqlite> + for<'r> Decode<'r, Postgres>,
    {
        match self {
            Self::Sqlite(row) => row.try_get_unchecked(column),
            Self::Postgres(row) => row.try_get_unchecked(column),
        }
        .map_err(|error| unreadable_column(column).with_source(error))
    }
}

/// Creates the error for an invalid value in a column.
pub(crate) fn unreadable_column(column: &str) -> StoreError {
    StoreError::corrupt(format!(
        "the store has an unreadable value in the column '{column}'"
    ))
}
