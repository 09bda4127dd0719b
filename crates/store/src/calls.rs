//! The call log. [`CallSpool`] writes the records of calls that only this process records to a
//! file. [`CallWriter`] takes all other records, and commits several records together. The module
//! `log` reads the records.

mod batch;
mod log;
mod query;
mod record;
mod retention;
mod spool;
mod statistics;
mod unwritten_calls;
mod writer;

use std::sync::Arc;

use pillion_core::store::{Cursor, PageRequest, RecordPage, StoreError};
use sqlx::AssertSqlSafe;

use crate::database::{Database, Row, Value};
pub(crate) use spool::{CallSpool, PendingRecords, damaged_files, files_with_records, recover};
pub(crate) use unwritten_calls::UnwrittenCalls;
pub(crate) use writer::CallWriter;

/// Returns a page of a list. The query has requested one item more than the page holds: if there is
/// such an item, there is another page.
pub(crate) fn build_page<T>(
    mut items: Vec<T>,
    page: &PageRequest,
    bytes: impl Fn(&T) -> usize,
    cursor: impl Fn(&T) -> Cursor,
) -> RecordPage<T> {
    let max_items = usize::try_from(page.size()).unwrap_or(usize::MAX);
    let size = max_items.min(count_fitting(items.iter().map(bytes), page.max_bytes));
    let more = items.len() > size;
    items.truncate(size);
    let next = if more { items.last().map(cursor) } else { None };
    RecordPage { items, next }
}

/// Returns how many rows to read for a page: the rows that fit on the page, and one more row.
/// `None` means all rows. `sizes` is the query for the sizes of the rows, and `row_bytes` returns
/// the size of a row.
pub(crate) async fn count_page_rows(
    database: &Database,
    sizes: String,
    values: &[Value],
    page: &PageRequest,
    row_bytes: impl Fn(&Row) -> Result<u64, StoreError>,
) -> Result<Option<i64>, StoreError> {
    if page.max_bytes == usize::MAX {
        return Ok(None);
    }
    let rows = database.read(AssertSqlSafe(sizes), values.to_vec()).await?;
    let bytes = rows
        .iter()
        .map(|row| Ok(usize::try_from(row_bytes(row)?).unwrap_or(usize::MAX)))
        .collect::<Result<Vec<_>, StoreError>>()?;
    let fitting = count_fitting(bytes.into_iter(), page.max_bytes);
    Ok(i64::try_from(fitting + 1).ok())
}

/// Returns how many of the first items have at most `max_bytes` bytes together. Returns at least 1.
fn count_fitting(sizes: impl Iterator<Item = usize>, max_bytes: usize) -> usize {
    let totals = sizes.scan(0_usize, |total, bytes| {
        *total = total.saturating_add(bytes);
        Some(*total)
    });
    let fitting = totals.take_while(|total| *total <= max_bytes);
    fitting.count().max(1)
}

/// Returns the error for operations on a closed store.
fn closed() -> StoreError {
    StoreError::unavailable("the store is closed")
}

/// Copies a failure for another caller that waits for the same write.
fn copy_error(failure: &Arc<StoreError>) -> StoreError {
    StoreError::new(failure.kind(), failure.to_string()).with_source(Arc::clone(failure))
}
