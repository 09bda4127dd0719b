use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// The category of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryCategory {
    /// Something that is true, such as "Alice works in the library".
    Fact,
    /// What a user prefers, such as "Alice wants short answers".
    Preference,
    /// A topic of conversation, such as "the exhibition in May".
    Topic,
}

impl MemoryCategory {
    /// All categories.
    pub const ALL: [Self; 3] = [Self::Fact, Self::Preference, Self::Topic];

    /// Returns the category's name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Preference => "preference",
            Self::Topic => "topic",
        }
    }

    /// Returns the category with this JSON name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut categories = Self::ALL.into_iter();
        categories.find(|category| category.as_str() == name)
    }
}

/// A stored memory of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The ID of the memory.
    pub id: String,
    /// The channel to which the memory belongs.
    pub channel: String,
    /// The user whom the memory is about; `None` for all users of the channel.
    pub user: Option<String>,
    /// The category of the memory.
    pub category: MemoryCategory,
    /// The text of the memory.
    pub content: String,
    /// The importance of the memory, 1 to 5. Default 1.
    pub importance: u8,
    /// The time at which the memory was created.
    pub created_at: Timestamp,
    /// The time at which a search last found the memory.
    pub last_accessed_at: Timestamp,
}

/// A search for memories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySearch {
    /// The channel to search.
    pub channel: String,
    /// The user who searches; memories of other users are not found.
    pub user: Option<String>,
    /// The search text: a memory must contain the first five words of the text, ignoring case.
    pub query: String,
    /// Maximum number of memories that the search finds.
    pub limit: u32,
}

impl MemorySearch {
    /// Returns the words that a memory must contain, in lower case.
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
        let lower_query = self.query.to_lowercase();
        lower_query
            .split_whitespace()
            .take(5)
            .map(str::to_owned)
            .collect()
    }
}

/// Stores memories.
#[async_trait]
pub trait MemoryStore: Send + Sync {
    /// Adds a memory, unless the channel already has `max` memories of the same user (or, for a
    /// memory without a user, `max` memories without a user). Returns whether the memory was added.
    ///
    /// # Errors
    /// `conflict` if a memory with this ID exists.
    async fn insert_memory(&self, memory: &Memory, max: u32) -> Result<bool, StoreError>;

    /// Returns the memories that a search finds, ordered by importance, then by last access, and
    /// marks them as accessed at `now`. A query without words finds nothing.
    ///
    /// # Errors
    /// The store cannot be read or written.
    async fn search_memories(
        &self,
        search: &MemorySearch,
        now: Timestamp,
    ) -> Result<Vec<Memory>, StoreError>;

    /// Removes a memory that this user can find in this channel: a memory of the user, or one
    /// without a user.
    ///
    /// # Errors
    /// `not_found` if there is no such memory; also for a memory of another channel or user.
    async fn remove_memory(
        &self,
        channel: &str,
        user: Option<&str>,
        id: &str,
    ) -> Result<(), StoreError>;
}
