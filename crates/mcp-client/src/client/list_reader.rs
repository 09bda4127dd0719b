//! Reads a server's list page by page, within limits of number and size.

use std::borrow::Cow;
use std::fmt;

use pillion_schema::compute;
use pillion_schema::json_values::{MAX_VALUES, count};
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use super::as_object;
use crate::{EntryKind, MAX_IDENTIFIER_BYTES, McpErrorKind, shortened};

/// Maximum size of one entry, in bytes: some requests read the whole entry.
const MAX_ENTRY_BYTES: usize = 1024 * 1024;

/// Maximum number of JSON values of one entry.
const MAX_ENTRY_VALUES: usize = 100_000;

/// Maximum total size of the entries of one list, in bytes.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// Maximum total number of JSON values of the entries of one list: schemas stay parsed.
const MAX_LIST_VALUES: usize = MAX_VALUES;

/// Maximum length of a dropped entry in the log, in bytes.
const MAX_SHOWN_BYTES: usize = 256;

/// A list of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListKind {
    pub(super) method: &'static str,
    /// The member of the result that holds the entries.
    key: &'static str,
    entries: EntryKind,
    /// Maximum number of entries.
    max_entries: usize,
}

impl ListKind {
    pub(super) const TOOLS: Self = Self {
        method: "tools/list",
        key: "tools",
        entries: EntryKind::Tool,
        max_entries: 10_000,
    };
    pub(super) const RESOURCES: Self = Self {
        method: "resources/list",
        key: "resources",
        entries: EntryKind::Resource,
        max_entries: 10_000,
    };
    /// Fewer, because the URI of each unlisted resource is matched against every template.
    pub(super) const RESOURCE_TEMPLATES: Self = Self {
        method: "resources/templates/list",
        key: "resourceTemplates",
        entries: EntryKind::ResourceTemplate,
        max_entries: 1_000,
    };
    pub(super) const PROMPTS: Self = Self {
        method: "prompts/list",
        key: "prompts",
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
    pages: usize,
    max_pages: usize,
    /// The total size of the pages, in bytes.
    page_bytes: usize,
    max_page_bytes: usize,
}

/// The next page of a list.
enum NextPage {
    First,
    At(String),
    Nothing,
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
            pages: 0,
            max_pages,
            page_bytes: 0,
            max_page_bytes,
        }
    }

    pub(super) fn into_entries(self) -> Vec<Box<RawValue>> {
        self.entries
    }

    /// Returns the parameters of the request for the next page; `None` after the last page.
    pub(super) fn next_page(&mut self) -> Result<Option<Box<RawValue>>, McpErrorKind> {
        let params = match &self.next {
            NextPage::First => json!({}),
            NextPage::At(cursor) => json!({ "cursor": cursor }),
            NextPage::Nothing => return Ok(None),
        };
        if self.pages == self.max_pages {
            let limit = self.max_pages;
            return Err(McpErrorKind::TooManyPages { limit });
        }
        self.pages += 1;
        as_object(&params).map(Some)
    }

    /// Adds the entries of a page. A long page is read on another thread.
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
        let members = PageMembers { key: self.kind.key };
        let page = members.deserialize(&mut serde_json::Deserializer::from_str(page.get()))?;
        let mut limits = ExceededLimits::default();
        if let Some(entries) = page.entries.filter(|entries| entries.get() != "null") {
            let mut entries = serde_json::Deserializer::from_str(entries.get());
            limits = PageEntries { list: self }.deserialize(&mut entries)?;
        }
        let cursor: Option<String> = match page.next {
            Some(cursor) => serde_json::from_str(cursor.get())?,
            None => None,
        };
        let cursor = cursor.filter(|cursor| !cursor.is_empty());
        limits.has_long_cursor = cursor
            .as_ref()
            .is_some_and(|cursor| cursor.len() > MAX_IDENTIFIER_BYTES);
        // A full list needs no further pages.
        let is_over = limits.is_full() || limits.has_long_cursor;
        self.next = match cursor {
            Some(cursor) if !is_over => NextPage::At(cursor),
            _ => NextPage::Nothing,
        };
        self.warn(&limits);
        Ok(())
    }

    fn warn(&self, limits: &ExceededLimits) {
        let (server, kind) = (&self.server, self.kind.entries.as_str());
        let max_entries = self.kind.max_entries;
        let warn = |limit: fmt::Arguments<'_>| {
            tracing::warn!(
                mcp.server = server,
                method = self.kind.method,
                "MCP server `{server}` {limit}"
            );
        };
        if limits.has_too_many {
            warn(format_args!(
                "lists more than {max_entries} {kind}s; the rest is dropped"
            ));
        }
        if limits.has_too_many_bytes {
            warn(format_args!(
                "lists {kind}s of more than {MAX_LIST_BYTES} bytes; the rest is dropped"
            ));
        }
        if limits.has_too_many_values {
            warn(format_args!(
                "lists {kind}s of more than {MAX_LIST_VALUES} JSON values; the rest is dropped"
            ));
        }
        if limits.large_entries > 0 {
            let (count, first) = (limits.large_entries, &limits.large_entry);
            warn(format_args!(
                "lists {count} {kind}s of more than {MAX_ENTRY_BYTES} bytes or {MAX_ENTRY_VALUES} \
                 JSON values each, which are dropped; the first is {first:?}"
            ));
        }
        if limits.has_long_cursor {
            warn(format_args!(
                "lists {kind}s with a cursor of more than {MAX_IDENTIFIER_BYTES} bytes; the rest \
                 is dropped"
            ));
        }
    }
}

/// The limits that a page exceeds.
#[derive(Default)]
struct ExceededLimits {
    has_too_many: bool,
    has_too_many_bytes: bool,
    has_too_many_values: bool,
    /// The number of entries over a limit of one entry.
    large_entries: usize,
    /// The beginning of the first of these entries.
    large_entry: String,
    has_long_cursor: bool,
}

impl ExceededLimits {
    fn is_full(&self) -> bool {
        self.has_too_many || self.has_too_many_bytes || self.has_too_many_values
    }
}

/// The members of a page that are used.
#[derive(Default)]
struct Page<'a> {
    entries: Option<&'a RawValue>,
    next: Option<&'a RawValue>,
}

/// Reads [`Page`] without storing other members.
struct PageMembers {
    key: &'static str,
}

impl<'de> DeserializeSeed<'de> for PageMembers {
    type Value = Page<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Page<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PageMembers {
    type Value = Page<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Page<'de>, A::Error> {
        let mut page = Page::default();
        while let Some(name) = members.next_key::<Cow<'_, str>>()? {
            match &*name {
                "nextCursor" => page.next = Some(members.next_value()?),
                name if name == self.key => page.entries = Some(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(page)
    }
}

/// Adds entries to a list within the limits.
struct PageEntries<'a> {
    list: &'a mut ListReader,
}

impl<'de> DeserializeSeed<'de> for PageEntries<'_> {
    type Value = ExceededLimits;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for PageEntries<'_> {
    type Value = ExceededLimits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let list = self.list;
        let mut limits = ExceededLimits::default();
        while let Some(entry) = entries.next_element::<&RawValue>()? {
            let size = entry.get().len();
            // Not counted if the entry is large.
            let is_large = size > MAX_ENTRY_BYTES;
            let values = if is_large {
                0
            } else {
                count(entry.get().as_bytes())
            };
            if is_large || values > MAX_ENTRY_VALUES {
                limits.large_entries += 1;
                if limits.large_entries == 1 {
                    limits.large_entry = shortened(entry.get(), MAX_SHOWN_BYTES).into_owned();
                }
                continue;
            }
            limits.has_too_many = list.entries.len() == list.kind.max_entries;
            limits.has_too_many_bytes = list.bytes + size > MAX_LIST_BYTES;
            limits.has_too_many_values = list.values + values > MAX_LIST_VALUES;
            if limits.is_full() {
                while entries.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
            list.bytes += size;
            list.values += values;
            list.entries.push(entry.to_owned());
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ListKind; 4] = [
        ListKind::TOOLS,
        ListKind::RESOURCES,
        ListKind::RESOURCE_TEMPLATES,
        ListKind::PROMPTS,
    ];

    async fn read(kind: ListKind, pages: &[String]) -> (Vec<Box<RawValue>>, usize) {
        let mut reader = ListReader::new(kind, "far", 100, usize::MAX);
        let mut read = 0;
        while let Some(_params) = reader.next_page().unwrap() {
            let page = RawValue::from_string(pages[read].clone()).unwrap();
            reader = reader.read(page).await.unwrap();
            read += 1;
        }
        (reader.into_entries(), read)
    }

    fn page(kind: ListKind, entries: &[String], cursor: Option<&str>) -> String {
        let entries = entries.join(",");
        let cursor = cursor.map(|cursor| format!(r#","nextCursor":"{cursor}""#));
        format!(
            r#"{{"more":[{{}}],"{}":[{entries}]{}}}"#,
            kind.key,
            cursor.unwrap_or_default()
        )
    }

    #[tokio::test]
    async fn the_number_of_entries_of_every_list_is_limited() {
        for kind in KINDS {
            let entries: Vec<_> = (0..kind.max_entries * 2)
                .map(|nth| nth.to_string())
                .collect();
            let half = kind.max_entries / 2;
            let pages = [
                page(kind, &entries[..half], Some("1")),
                page(kind, &entries[half..], Some("2")),
            ];
            let (kept, pages) = read(kind, &pages).await;
            assert_eq!((kept.len(), pages), (kind.max_entries, 2), "{}", kind.key);
            let kept = kept.iter().map(|entry| entry.get());
            assert!(kept.eq(entries.iter().take(kind.max_entries)));
        }
    }

    #[tokio::test]
    async fn the_size_of_the_entries_of_every_list_is_limited() {
        for kind in KINDS {
            let large = format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES));
            let fits = format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES - 2));
            let entries = [
                large.clone(),
                "1".to_owned(),
                fits.clone(),
                large,
                "2".to_owned(),
            ];
            let (kept, _) = read(kind, &[page(kind, &entries, None)]).await;
            let kept: Vec<_> = kept.iter().map(|entry| entry.get()).collect();
            assert!(kept == ["1", &*fits, "2"], "{}", kind.key);

            let many = vec![fits; 20];
            let (kept, pages) = read(kind, &[page(kind, &many, Some("more"))]).await;
            assert_eq!((kept.len(), pages), (16, 1), "{}", kind.key);
        }
    }

    #[tokio::test]
    async fn the_number_of_values_of_the_entries_of_every_list_is_limited() {
        for kind in KINDS {
            for (value, values) in [("0", 1), ("[]", 2), ("[0]", 2), (r#"{"":[]}"#, 3)] {
                let of = |number: usize| format!("[{}]", vec![value; number].join(","));
                let fits = of((MAX_ENTRY_VALUES - 1) / values);
                let entries = [
                    of(MAX_ENTRY_VALUES / values + 1),
                    "1".to_owned(),
                    fits.clone(),
                ];
                let (kept, _) = read(kind, &[page(kind, &entries, None)]).await;
                let kept: Vec<_> = kept.iter().map(|entry| entry.get()).collect();
                assert!(kept == ["1", &*fits], "{}", kind.key);

                let pages = [
                    page(kind, &vec![fits.clone(); 8], Some("1")),
                    page(kind, &vec![fits; 8], Some("2")),
                ];
                let (kept, pages) = read(kind, &pages).await;
                assert_eq!((kept.len(), pages), (10, 2), "{}", kind.key);
            }
        }
    }

    #[tokio::test]
    async fn a_long_cursor_ends_a_list() {
        let kind = ListKind::PROMPTS;
        let one = ["1".to_owned()];
        let cursor = "c".repeat(MAX_IDENTIFIER_BYTES);
        let pages = [
            page(kind, &one, Some(&cursor)),
            page(kind, &one, Some(&format!("{cursor}c"))),
        ];
        let (kept, pages) = read(kind, &pages).await;
        assert_eq!((kept.len(), pages), (2, 2));
    }
}
