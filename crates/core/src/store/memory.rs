use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// What a memory is about (requirement D5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryCategory {
    /// Something that is so.
    Fact,
    /// Something that somebody likes.
    Preference,
    /// Something that was talked about.
    Topic,
}

impl MemoryCategory {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fact, Self::Preference, Self::Topic];

    /// The category as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Preference => "preference",
            Self::Topic => "topic",
        }
    }

    /// The category of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|category| category.as_str() == name)
    }
}

/// Something that is remembered of a channel (requirement D5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Its id.
    pub id: String,
    /// The channel that it belongs to.
    pub channel: String,
    /// The user whom it is about; none for everybody in the channel.
    pub user: Option<String>,
    /// What it is about.
    pub category: MemoryCategory,
    /// What is remembered.
    pub content: String,
    /// 1 to 5; 1 unless somebody says otherwise.
    pub importance: u8,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a search found it last.
    pub last_accessed_at: Timestamp,
}

/// What is looked for (requirement D5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySearch {
    /// The channel.
    pub channel: String,
    /// The user who asks; memories of other users are not found.
    pub user: Option<String>,
    /// The first five words all have to occur, as they stand, in upper or lower case.
    pub query: String,
    /// At most so many.
    pub limit: u32,
}

impl MemorySearch {
    /// The words that have to occur, in lower case.
    ///
    /// ```
    /// use pillion_core::store::MemorySearch;
    /// let search = MemorySearch {
    ///     channel: "c".into(), user: None, query: "What does Alice like to eat?".into(), limit: 5,
    /// };
    /// assert_eq!(search.words(), ["what", "does", "alice", "like", "to"]);
    /// ```
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let lower = self.query.to_lowercase();
        lower
            .split_whitespace()
            .take(5)
            .map(str::to_owned)
            .collect()
    }
}

/// Keeps what is remembered.
#[async_trait]
pub trait MemoryStore: Send + Sync {
    /// Adds a memory, unless its user has `most` of them in its channel already, or the channel
    /// as many for everybody; whether it was added.
    ///
    /// # Errors
    /// `conflict` when there is one of that id.
    async fn insert_memory(&self, memory: &Memory, most: u32) -> Result<bool, StoreError>;

    /// What a search finds, the most important first and of these the last accessed; what is
    /// found counts as accessed at `now`. A query without words finds nothing.
    ///
    /// # Errors
    /// Errors of the store.
    async fn search_memories(
        &self,
        search: &MemorySearch,
        now: Timestamp,
    ) -> Result<Vec<Memory>, StoreError>;

    /// Removes a memory that this user would find in this channel: one of the user's own or of
    /// everybody's.
    ///
    /// # Errors
    /// `not_found`, also for a memory of another channel or user.
    async fn remove_memory(
        &self,
        channel: &str,
        user: Option<&str>,
        id: &str,
    ) -> Result<(), StoreError>;
}
