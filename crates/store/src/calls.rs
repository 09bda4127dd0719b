//! The call log. [`CallWriter`] writes records to the database, several in one commit. If no other
//! process records a call, [`CallSpool`] first writes its records to a file, which is faster. The
//! module `log` reads the records.

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

use crate::Result;
use crate::database::{Database, Row, SqlValue};
pub(crate) use spool::{
    CallSpool, PendingRecords, list_damaged_files, list_files_with_records, recover,
};
pub(crate) use unwritten_calls::UnwrittenCalls;
pub(crate) use writer::CallWriter;

/// Returns a page of a list. The query has requested one item more than the page holds; if the
/// query returned that item, there is another page.
pub(crate) fn build_page<T>(
    mut items: Vec<T>,
    page: &PageRequest,
    item_bytes: impl Fn(&T) -> usize,
    item_cursor: impl Fn(&T) -> Cursor,
) -> RecordPage<T> {
    let max_items = usize::try_from(page.size()).unwrap_or(usize::MAX);
    let item_count = max_items.min(count_fitting_items(
        items.iter().map(item_bytes),
        page.max_bytes,
    ));
    let has_more = items.len() > item_count;
    items.truncate(item_count);
    let next = if has_more {
        items.last().map(item_cursor)
    } else {
        None
    };
    RecordPage { items, next }
}

/// Returns how many rows to read for a page: one row more than fits on the page. Returns `None`,
/// which means all rows, if the page has no size limit. `sizes_sql` is the query for the sizes of
/// the rows, and `row_bytes` returns the size of a row.
pub(crate) async fn count_page_rows(
    database: &Database,
    sizes_sql: String,
    values: &[SqlValue],
    page: &PageRequest,
    row_bytes: impl Fn(&Row) -> Result<u64>,
) -> Result<Option<i64>> {
    if page.max_bytes == usize::MAX {
        return Ok(None);
    }
    let rows = database
        .read(AssertSqlSafe(sizes_sql), values.to_vec())
        .await?;
    let row_sizes = rows
        .iter()
        .map(|row| Ok(usize::try_from(row_bytes(row)?).unwrap_or(usize::MAX)))
        .collect::<Result<Vec<_>>>()?;
    let fitting_row_count = count_fitting_items(row_sizes.into_iter(), page.max_bytes);
    Ok(i64::try_from(fitting_row_count + 1).ok())
}

/// Returns the number of leading items whose total size is at most `max_bytes` bytes, but at least
/// 1.
fn count_fitting_items(sizes: impl Iterator<Item = usize>, max_bytes: usize) -> usize {
    let totals = sizes.scan(0_usize, |total, bytes| {
        *total = total.saturating_add(bytes);
        Some(*total)
    });
    let fitting_totals = totals.take_while(|total| *total <= max_bytes);
    fitting_totals.count().max(1)
}

/// Returns the error of every operation on a closed store.
fn closed_error() -> StoreError {
    StoreError::unavailable("the store is closed")
}

/// Returns a copy of the error, for another caller that waits for the same write.
fn copy_error(failure: &Arc<StoreError>) -> StoreError {
    StoreError::new(failure.kind(), failure.to_string()).with_source(Arc::clone(failure))
}
