//! Reads a server's list page by page, within limits of number and size.

mod entries;
mod findings;
mod page;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use pillion_schema::compute;
use pillion_schema::json_values::{MAX_VALUES, count};
use serde::Deserializer;
use serde_json::value::RawValue;

use self::entries::PageEntries;
use self::findings::PageFindings;
use self::page::{NextCursor, Page};
use crate::{EntryKind, MAX_IDENTIFIER_BYTES, McpErrorKind, shortened};

/// Maximum size of one entry, in bytes. Entries are limited, because some requests parse a whole
/// entry.
const MAX_ENTRY_BYTES: usize = 1024 * 1024;

/// Maximum number of JSON values of one entry.
const MAX_ENTRY_VALUES: usize = 100_000;

/// Maximum total size of the entries of one list, in bytes.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// Maximum total number of JSON values in the entries of one list. Limits the memory that the
/// schemas of tools use, because schemas are stored parsed.
const MAX_LIST_VALUES: usize = MAX_VALUES;

/// Maximum length of a dropped entry in the log, in bytes.
const MAX_LOGGED_BYTES: usize = 256;

/// One of the lists of a server, such as `tools/list`, and its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListKind {
    pub(super) method: &'static str,
    /// The name of the member of the result that contains the entries, such as `tools`.
    key: &'static str,
    /// The name of the member that identifies an entry, such as `name` or `uri`.
    identifier: &'static str,
    entry_kind: EntryKind,
    /// Maximum number of entries of the list.
    max_entries: usize,
}

impl ListKind {
    pub(super) const TOOLS: Self = Self {
        method: "tools/list",
        key: "tools",
        identifier: "name",
        entry_kind: EntryKind::Tool,
        max_entries: 10_000,
    };
    pub(super) const RESOURCES: Self = Self {
        method: "resources/list",
        key: "resources",
        identifier: "uri",
        entry_kind: EntryKind::Resource,
        max_entries: 10_000,
    };
    /// The list `resources/templates/list`. The maximum number of entries is lower than for other
    /// lists, because the URI of each unlisted resource is matched against every template.
    pub(super) const RESOURCE_TEMPLATES: Self = Self {
        method: "resources/templates/list",
        key: "resourceTemplates",
        identifier: "uriTemplate",
        entry_kind: EntryKind::ResourceTemplate,
        max_entries: 1_000,
    };
    pub(super) const PROMPTS: Self = Self {
        method: "prompts/list",
        key: "prompts",
        identifier: "name",
        entry_kind: EntryKind::Prompt,
        max_entries: 10_000,
    };
}

/// A list that is read page by page.
pub(super) struct ListReader {
    kind: ListKind,
    server: String,
    entries: Vec<Box<RawValue>>,
    /// The total size of `entries`, in bytes.
    entry_bytes: usize,
    /// The total number of JSON values of `entries`.
    entry_value_count: usize,
    next_page: NextPage,
    /// The cursors of the pages that were read, to detect a server that repeats pages.
    cursors: HashSet<String>,
    /// The digests of the pages that were read, to detect a server that repeats pages.
    digests: Vec<PageDigest>,
    /// The number of pages that were requested.
    page_count: usize,
    max_pages: usize,
    /// The total size of the pages, in bytes.
    page_bytes: usize,
    max_page_bytes: usize,
}

/// The page of a list to request next.
enum NextPage {
    First,
    /// The page at this cursor, which is JSON text.
    AtCursor(Box<RawValue>),
    None,
}

/// Identifies the entries of a page that was read.
struct PageDigest {
    /// The hash of the page's entries.
    hash: u64,
    /// The index of the page's first entry in the list; `end_index` is the index after the page's
    /// last entry.
    start_index: usize,
    end_index: usize,
}

impl ListReader {
    pub(super) fn new(kind: ListKind, server: &str, max_pages: usize, max_bytes: usize) -> Self {
        Self {
            kind,
            server: server.to_owned(),
            entries: Vec::new(),
            entry_bytes: 0,
            entry_value_count: 0,
            next_page: NextPage::First,
            cursors: HashSet::new(),
            digests: Vec::new(),
            page_count: 0,
            max_pages,
            page_bytes: 0,
            max_page_bytes: max_bytes,
        }
    }

    pub(super) fn into_entries(self) -> Vec<Box<RawValue>> {
        self.entries
    }

    /// Returns the parameters of the request for the next page of the list; `None` after the last
    /// page.
    pub(super) fn next_page_params(&mut self) -> Result<Option<Box<RawValue>>, McpErrorKind> {
        let params = match &self.next_page {
            NextPage::First => "{}".to_owned(),
            NextPage::AtCursor(cursor) => format!("{{\"cursor\":{cursor}}}"),
            NextPage::None => return Ok(None),
        };
        if self.page_count == self.max_pages {
            let limit = self.max_pages;
            return Err(McpErrorKind::TooManyPages { limit });
        }
        self.page_count += 1;
        RawValue::from_string(params)
            .map(Some)
            .map_err(McpErrorKind::UnserializableParams)
    }

    /// Adds the entries of a page. The entries of a long page are read on another thread.
    pub(super) async fn read_page(mut self, page: Box<RawValue>) -> Result<Self, McpErrorKind> {
        self.page_bytes = self.page_bytes.saturating_add(page.get().len());
        if self.page_bytes > self.max_page_bytes {
            let limit = self.max_page_bytes;
            return Err(McpErrorKind::ListTooLarge { limit });
        }
        let (server_label, page_bytes) = (self.server.clone(), page.get().len());
        let add_page = move || {
            let method = self.kind.method;
            let unexpected_result = |source| McpErrorKind::UnexpectedResult { method, source };
            self.add_page(&page).map_err(unexpected_result)?;
            Ok(self)
        };
        compute::run(&server_label, page_bytes, add_page).await
    }

    fn add_page(&mut self, result: &RawValue) -> Result<(), serde_json::Error> {
        let page = Page::read(result, self.kind)?;
        let start_index = self.entries.len();
        let mut findings = PageFindings::default();
        let entries = page.entries.filter(|entries| entries.get() != "null");
        if let Some(entries) = entries {
            let mut deserializer = serde_json::Deserializer::from_str(entries.get());
            findings = deserializer.deserialize_any(PageEntries { list: self })?;
        }
        let is_object = entries.is_some_and(|entries| entries.get().starts_with('{'));
        findings.has_unexpected_form = page.is_misplaced || is_object;
        let next_cursor = match page.next_cursor() {
            NextCursor::None => None,
            NextCursor::Cursor(cursor) => Some(cursor),
            NextCursor::Unusable => {
                findings.has_unusable_cursor = true;
                None
            }
        };
        // The limit applies to the cursor without the quotes of its JSON string, so two bytes are
        // added for the quotes.
        findings.has_long_cursor =
            next_cursor.is_some_and(|cursor| cursor.get().len() > MAX_IDENTIFIER_BYTES + 2);
        let cursor = next_cursor.filter(|_| !findings.has_long_cursor && !findings.is_full());
        if let Some(cursor) = cursor {
            let text = entries.map_or("", RawValue::get);
            findings.is_repeated = self.drop_repeated_pages(cursor, text, start_index);
        }
        // Once the list has reached a limit, further pages are not requested.
        self.next_page = match cursor {
            Some(cursor) if !findings.is_repeated => NextPage::AtCursor(cursor.to_owned()),
            _ => NextPage::None,
        };
        findings.log_warnings(&self.server, self.kind);
        Ok(())
    }

    /// Detects a server that ignores the cursor: the server returned an earlier cursor again, or
    /// the same page for the third time in succession. If so, removes the entries of the repeated
    /// pages, and returns `true`.
    fn drop_repeated_pages(
        &mut self,
        cursor: &RawValue,
        entries: &str,
        start_index: usize,
    ) -> bool {
        const MAX_PAGE_COPIES: usize = 2;
        let mut hasher = DefaultHasher::new();
        entries.hash(&mut hasher);
        let page = PageDigest {
            hash: hasher.finish(),
            start_index,
            end_index: self.entries.len(),
        };
        let is_copy = |earlier: &&PageDigest| {
            earlier.hash == page.hash && earlier.end_index > earlier.start_index
        };
        let is_old_cursor = !self.cursors.insert(cursor.get().to_owned());
        let copy_count = self.digests.iter().rev().take_while(is_copy).count();
        if is_old_cursor || copy_count >= MAX_PAGE_COPIES {
            if let Some(first_copy) = self.digests.iter().rev().take_while(is_copy).last() {
                self.entries.truncate(first_copy.end_index);
            } else if self.digests.iter().any(|earlier| is_copy(&earlier)) {
                self.entries.truncate(start_index);
            }
            return true;
        }
        self.digests.push(page);
        false
    }

    /// Adds an entry to the list, unless the entry exceeds a limit.
    fn add_entry(&mut self, entry: &RawValue, findings: &mut PageFindings) {
        let size = entry.get().len();
        // The JSON values of an entry are not counted if the entry already exceeds the size limit.
        let value_count = (size <= MAX_ENTRY_BYTES).then(|| count(entry.get().as_bytes()));
        let Some(value_count) = value_count.filter(|values| *values <= MAX_ENTRY_VALUES) else {
            findings.large_entry_count += 1;
            if findings.large_entry_count == 1 {
                findings.first_large_entry = shortened(entry.get(), MAX_LOGGED_BYTES).into_owned();
            }
            return;
        };
        findings.has_too_many_entries = self.entries.len() == self.kind.max_entries;
        findings.has_too_many_bytes = self.entry_bytes + size > MAX_LIST_BYTES;
        findings.has_too_many_values = self.entry_value_count + value_count > MAX_LIST_VALUES;
        if findings.is_full() {
            return;
        }
        self.entry_bytes += size;
        self.entry_value_count += value_count;
        self.entries.push(entry.to_owned());
    }
}
