//! The call log. [`CallSpool`] takes the records of calls that only this process records, in a
//! file. [`CallWriter`] takes all other records, and commits several records together. The module
//! `log` reads the records.

mod batch;
mod log;
mod query;
mod record;
mod retention;
mod spool;
mod statistics;
mod writer;

use std::sync::Arc;

use pillion_core::store::{Cursor, RecordPage, StoreError};

pub(crate) use spool::{
    CallSpool, PendingRecords, UnwrittenCalls, damaged_files, files_with_records, recover,
};
pub(crate) use writer::CallWriter;

/// Returns a page. The query has requested one item more than the page holds, which shows whether
/// there is another page.
pub(crate) fn page_of<T>(
    mut items: Vec<T>,
    size: u32,
    cursor: impl Fn(&T) -> Cursor,
) -> RecordPage<T> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let more = items.len() > size;
    items.truncate(size);
    let next = if more { items.last().map(cursor) } else { None };
    RecordPage { items, next }
}

/// The error for operations after the store was closed.
fn closed() -> StoreError {
    StoreError::unavailable("the store is closed")
}

/// Copies the failure for another waiting caller.
fn repeat(failure: &Arc<StoreError>) -> StoreError {
    StoreError::new(failure.kind(), failure.to_string()).with_source(Arc::clone(failure))
}
