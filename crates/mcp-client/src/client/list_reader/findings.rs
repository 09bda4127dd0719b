use std::fmt;

use super::{ListKind, MAX_ENTRY_BYTES, MAX_ENTRY_VALUES, MAX_LIST_BYTES, MAX_LIST_VALUES};
use crate::MAX_IDENTIFIER_BYTES;

/// The limits that a page of a list exceeds, and the page's violations of the specification.
#[derive(Default)]
pub(super) struct PageFindings {
    pub(super) has_too_many_entries: bool,
    pub(super) has_too_many_bytes: bool,
    pub(super) has_too_many_values: bool,
    /// The number of entries that exceed the limits of a single entry.
    pub(super) large_entry_count: usize,
    /// The beginning of the first entry that exceeds the limits of a single entry.
    pub(super) first_large_entry: String,
    pub(super) has_long_cursor: bool,
    pub(super) has_unusable_cursor: bool,
    /// Whether the entries are in an object instead of a list, or in the wrong member of the
    /// result.
    pub(super) has_unexpected_form: bool,
    /// Whether the server ignores the cursor of a request and returns an earlier page again.
    pub(super) is_repeated: bool,
}

impl PageFindings {
    /// Returns whether the list has reached a limit.
    pub(super) fn is_full(&self) -> bool {
        self.has_too_many_entries || self.has_too_many_bytes || self.has_too_many_values
    }

    /// Logs a warning for each kind of finding.
    pub(super) fn log_warnings(&self, server: &str, list: ListKind) {
        let (kind, max_entries) = (list.entry_kind.as_str(), list.max_entries);
        let warn = |finding: fmt::Arguments<'_>| {
            tracing::warn!(
                mcp.server = server,
                method = list.method,
                "MCP server `{server}` {finding}"
            );
        };
        if self.has_too_many_entries {
            warn(format_args!(
                "lists more than {max_entries} {kind}s; the rest is dropped"
            ));
        }
        if self.has_too_many_bytes {
            warn(format_args!(
                "lists {kind}s of more than {MAX_LIST_BYTES} bytes; the rest is dropped"
            ));
        }
        if self.has_too_many_values {
            warn(format_args!(
                "lists {kind}s of more than {MAX_LIST_VALUES} JSON values; the rest is dropped"
            ));
        }
        if self.large_entry_count > 0 {
            let (count, first_entry) = (self.large_entry_count, &self.first_large_entry);
            warn(format_args!(
                "lists {count} {kind}s of more than {MAX_ENTRY_BYTES} bytes or {MAX_ENTRY_VALUES} \
                 JSON values each, which are dropped; the first is {first_entry:?}"
            ));
        }
        if self.has_unexpected_form {
            warn(format_args!(
                "lists {kind}s in another form than `{}`: [...]; Pillion reads the list anyway",
                list.key
            ));
        }
        if self.has_unusable_cursor {
            warn(format_args!(
                "lists {kind}s with a `nextCursor` that is neither a string nor a number; the rest \
                 is dropped"
            ));
        }
        if self.is_repeated {
            warn(format_args!(
                "ignores the cursor in the list of {kind}s; the repeated pages are dropped"
            ));
        }
        if self.has_long_cursor {
            warn(format_args!(
                "lists {kind}s with a cursor of more than {MAX_IDENTIFIER_BYTES} bytes; the rest \
                 is dropped"
            ));
        }
    }
}
