use std::fmt;

/// Where the next page of a list begins: opaque to whoever passes it on. It names a place in
/// the order and not a number of rows, so that records that come or go meanwhile move nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// A cursor from its text, as a caller sends it; whether it is one is found out by the store.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text: letters, digits, `-` and `_`.
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

/// Which part of a list somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// After which record; none for the beginning.
    pub after: Option<Cursor>,
    /// At most so many records, 1 to 1,000. What is outside is taken for the nearest inside.
    pub limit: u32,
}

impl PageRequest {
    /// The most records that a page has.
    pub const LARGEST: u32 = 1_000;

    /// The first page of this size.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    /// The page of the same size after that cursor.
    #[must_use]
    pub fn after(cursor: Cursor, limit: u32) -> Self {
        Self {
            after: Some(cursor),
            limit,
        }
    }

    /// The limit, within its bounds.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.limit.clamp(1, Self::LARGEST)
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        Self::first(50)
    }
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The records, in the order of the list.
    pub items: Vec<T>,
    /// Where the next page begins; none when this is the last.
    pub next: Option<Cursor>,
}
