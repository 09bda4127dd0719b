use std::fmt;

/// The position of the next page of a list; opaque to clients. A cursor names a position in the
/// order rather than a row number, so records that are added or removed do not shift the pages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// Creates a cursor from the text that a caller sent. The store validates the cursor.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the cursor: letters, digits, `-` and `_`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Requests one page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The position after which the page begins; `None` for the first page.
    pub after: Option<Cursor>,
    /// Maximum number of records, 1 to 1,000. Values outside this range are clamped.
    pub limit: u32,
    /// Maximum size of the JSON and error messages of the page's records, in bytes. A record that
    /// is larger than this maximum is alone on its page. No maximum by default.
    pub max_bytes: usize,
}

impl PageRequest {
    /// Maximum number of records per page.
    pub const MAX_LIMIT: u32 = 1_000;

    /// Requests the first page.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self {
            after: None,
            limit,
            max_bytes: usize::MAX,
        }
    }

    /// Requests the page after this cursor.
    #[must_use]
    pub fn after(cursor: Cursor, limit: u32) -> Self {
        Self {
            after: Some(cursor),
            ..Self::first(limit)
        }
    }

    /// Returns [`limit`](Self::limit), clamped to the range 1 to 1,000.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.limit.clamp(1, Self::MAX_LIMIT)
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        Self::first(50)
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage<T> {
    /// The records, in the order of the list.
    pub items: Vec<T>,
    /// The position of the next page; `None` if this is the last page.
    pub next: Option<Cursor>,
}
