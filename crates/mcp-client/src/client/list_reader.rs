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

/// Maximum size of one entry, in bytes: some requests read the whole entry.
const MAX_ENTRY_BYTES: usize = 1024 * 1024;

/// Maximum number of JSON values of one entry.
const MAX_ENTRY_VALUES: usize = 100_000;

/// Maximum total size of the entries of one list, in bytes.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// Maximum total number of JSON values of the entries of one list, because schemas stay parsed.
const MAX_LIST_VALUES: usize = MAX_VALUES;

/// Maximum length of a dropped entry in the log, in bytes.
const MAX_SHOWN_BYTES: usize = 256;

/// One of the lists of a server, such as `tools/list`, and its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListKind {
    pub(super) method: &'static str,
    /// The member of the result that holds the entries.
    key: &'static str,
    /// The member of an entry that identifies the entry.
    identifier: &'static str,
    entries: EntryKind,
    /// Maximum number of entries of the list.
    max_entries: usize,
}

impl ListKind {
    pub(super) const TOOLS: Self = Self {
        method: "tools/list",
        key: "tools",
        identifier: "name",
        entries: EntryKind::Tool,
        max_entries: 10_000,
    };
    pub(super) const RESOURCES: Self = Self {
        method: "resources/list",
        key: "resources",
        identifier: "uri",
        entries: EntryKind::Resource,
        max_entries: 10_000,
    };
    /// The limit is lower than for other lists, because the URI of each unlisted resource is
    /// matched against every template.
    pub(super) const RESOURCE_TEMPLATES: Self = Self {
        method: "resources/templates/list",
        key: "resourceTemplates",
        identifier: "uriTemplate",
        entries: EntryKind::ResourceTemplate,
        max_entries: 1_000,
    };
    pub(super) const PROMPTS: Self = Self {
        method: "prompts/list",
        key: "prompts",
        identifier: "name",
        entries: EntryKind::Prompt,
        max_entries: 10_000,
    };
}

/// A list that is read page by page.
pub(super) struct ListReader {
    kind: ListKind,
    server: String,
    entries: Vec<Box<RawValue>>,
    /// The total size of `entries`, in bytes.
    bytes: usize,
    /// The total number of JSON values of `entries`.
    values: usize,
    next: NextPage,
    /// The cursors of the pages that were read, to detect a loop.
    cursors: HashSet<String>,
    /// The pages that were read, to detect a loop.
    read: Vec<PageDigest>,
    pages: usize,
    max_pages: usize,
    /// The total size of the pages, in bytes.
    page_bytes: usize,
    max_page_bytes: usize,
}

/// The next page of a list.
enum NextPage {
    First,
    /// The page at this cursor, which is JSON text.
    At(Box<RawValue>),
    Nothing,
}

/// Identifies the entries of a page that was read.
struct PageDigest {
    /// The hash of the page's entries.
    hash: u64,
    /// The number of entries of the list before and after the page.
    start: usize,
    end: usize,
}

impl ListReader {
    pub(super) fn new(
        kind: ListKind,
        server: &str,
        max_pages: usize,
        max_page_bytes: usize,
    ) -> Self {
        Self {
            kind,
            server: server.to_owned(),
            entries: Vec::new(),
            bytes: 0,
            values: 0,
            next: NextPage::First,
            cursors: HashSet::new(),
            read: Vec::new(),
            pages: 0,
            max_pages,
            page_bytes: 0,
            max_page_bytes,
        }
    }

    pub(super) fn into_entries(self) -> Vec<Box<RawValue>> {
        self.entries
    }

    /// Returns the parameters of the request for the next page of the list; `None` after the last
    /// page.
    pub(super) fn next_page(&mut self) -> Result<Option<Box<RawValue>>, McpErrorKind> {
        let params = match &self.next {
            NextPage::First => "{}".to_owned(),
            NextPage::At(cursor) => format!("{{\"cursor\":{cursor}}}"),
            NextPage::Nothing => return Ok(None),
        };
        if self.pages == self.max_pages {
            let limit = self.max_pages;
            return Err(McpErrorKind::TooManyPages { limit });
        }
        self.pages += 1;
        RawValue::from_string(params)
            .map(Some)
            .map_err(McpErrorKind::Encode)
    }

    /// Adds the entries of a page. The entries of a long page are read on another thread.
    pub(super) async fn read(mut self, page: Box<RawValue>) -> Result<Self, McpErrorKind> {
        self.page_bytes = self.page_bytes.saturating_add(page.get().len());
        if self.page_bytes > self.max_page_bytes {
            let limit = self.max_page_bytes;
            return Err(McpErrorKind::ListTooLarge { limit });
        }
        let (account, bytes) = (self.server.clone(), page.get().len());
        let read = move || {
            let method = self.kind.method;
            let unexpected = |source| McpErrorKind::UnexpectedResult { method, source };
            self.add(&page).map_err(unexpected)?;
            Ok(self)
        };
        compute::run(&account, bytes, read).await
    }

    fn add(&mut self, page: &RawValue) -> Result<(), serde_json::Error> {
        let page = Page::read(page, self.kind)?;
        let start = self.entries.len();
        let mut findings = PageFindings::default();
        let entries = page.entries.filter(|entries| entries.get() != "null");
        if let Some(entries) = entries {
            let mut reader = serde_json::Deserializer::from_str(entries.get());
            findings = reader.deserialize_any(PageEntries { list: self })?;
        }
        let is_object = entries.is_some_and(|entries| entries.get().starts_with('{'));
        findings.has_odd_form = page.is_misplaced || is_object;
        let next_cursor = match page.next_cursor() {
            NextCursor::None => None,
            NextCursor::Cursor(cursor) => Some(cursor),
            NextCursor::Unusable => {
                findings.has_unusable_cursor = true;
                None
            }
        };
        // The limit does not count the quotes of the JSON string.
        findings.has_long_cursor =
            next_cursor.is_some_and(|cursor| cursor.get().len() > MAX_IDENTIFIER_BYTES + 2);
        let cursor = next_cursor.filter(|_| !findings.has_long_cursor && !findings.is_full());
        if let Some(cursor) = cursor {
            let entries = entries.map_or("", RawValue::get);
            findings.repeats = self.is_repeated(cursor, entries, start);
        }
        // Once the list has reached a limit, further pages are not requested.
        self.next = match cursor {
            Some(cursor) if !findings.repeats => NextPage::At(cursor.to_owned()),
            _ => NextPage::Nothing,
        };
        findings.warn(&self.server, self.kind);
        Ok(())
    }

    /// Returns whether the server ignores the cursor: returns a cursor again, or the same page for
    /// the third time in succession. Removes the entries of the repeated pages.
    fn is_repeated(&mut self, cursor: &RawValue, entries: &str, start: usize) -> bool {
        const MAX_COPIES: usize = 2;
        let mut hasher = DefaultHasher::new();
        entries.hash(&mut hasher);
        let page = PageDigest {
            hash: hasher.finish(),
            start,
            end: self.entries.len(),
        };
        let is_copy = |other: &&PageDigest| other.hash == page.hash && other.end > other.start;
        let is_old_cursor = !self.cursors.insert(cursor.get().to_owned());
        let copies = self.read.iter().rev().take_while(is_copy).count();
        if is_old_cursor || copies >= MAX_COPIES {
            if let Some(first) = self.read.iter().rev().take_while(is_copy).last() {
                self.entries.truncate(first.end);
            } else if self.read.iter().any(|other| is_copy(&other)) {
                self.entries.truncate(start);
            }
            return true;
        }
        self.read.push(page);
        false
    }

    /// Adds an entry to the list, unless the entry exceeds a limit.
    fn add_entry(&mut self, entry: &RawValue, findings: &mut PageFindings) {
        let size = entry.get().len();
        // The values of an entry that is too large are not counted.
        let is_large = size > MAX_ENTRY_BYTES;
        let values = if is_large {
            0
        } else {
            count(entry.get().as_bytes())
        };
        if is_large || values > MAX_ENTRY_VALUES {
            findings.large_entries += 1;
            if findings.large_entries == 1 {
                findings.large_entry = shortened(entry.get(), MAX_SHOWN_BYTES).into_owned();
            }
            return;
        }
        findings.has_too_many = self.entries.len() == self.kind.max_entries;
        findings.has_too_many_bytes = self.bytes + size > MAX_LIST_BYTES;
        findings.has_too_many_values = self.values + values > MAX_LIST_VALUES;
        if findings.is_full() {
            return;
        }
        self.bytes += size;
        self.values += values;
        self.entries.push(entry.to_owned());
    }
}
