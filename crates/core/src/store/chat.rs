use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A stored chat with a model.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatRecord {
    /// The ID of the chat.
    pub id: String,
    /// The owner; only the owner can find the chat.
    pub owner: String,
    /// The state of the chat as JSON; opaque to the store.
    pub json: String,
    /// The summary for lists of chats, as JSON; opaque to the store.
    pub summary: String,
    /// Revision of the chat, starting at 1.
    pub revision: u64,
    /// The time at which the chat was created.
    pub created_at: Timestamp,
    /// The time at which the chat was last changed.
    pub updated_at: Timestamp,
    /// The exclusive right of a request to continue the chat; `None` if no request has this right.
    /// Written when the chat is inserted, and by [`claim_chat`](ChatStore::claim_chat) afterwards.
    pub claim: Option<ChatClaim>,
}

/// The exclusive right of a request to continue a chat until an expiry time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatClaim {
    /// The unique ID of the request that has the right.
    pub claimant: String,
    /// The time at which the right expires, unless the request renews it.
    pub expires_at: Timestamp,
}

/// A chat in a list of chats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSummary {
    /// The ID of the chat.
    pub id: String,
    /// The summary for lists of chats, as JSON ([`ChatRecord::summary`]).
    pub summary: String,
    /// The exclusive right of a request to continue the chat, if any ([`ChatRecord::claim`]).
    pub claim: Option<ChatClaim>,
}

impl std::fmt::Debug for ChatRecord {
    /// Prints the record without the messages of the chat.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatRecord")
            .field("id", &self.id)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Stores chats.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Adds a chat with revision 1.
    ///
    /// # Errors
    /// `conflict` if a chat with this ID exists.
    async fn insert_chat(&self, chat: &ChatRecord) -> Result<(), StoreError>;

    /// Returns the owner's chat with this ID.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_chat(&self, owner: &str, id: &str) -> Result<Option<ChatRecord>, StoreError>;

    /// Replaces a chat with its next revision, if no other change has replaced the preceding
    /// revision.
    ///
    /// # Errors
    /// `conflict` if the stored chat is not at the preceding revision, or no longer exists.
    async fn replace_chat(&self, chat: &ChatRecord) -> Result<(), StoreError>;

    /// Returns at most `limit` chats of the owner, most recently changed first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn chats(&self, owner: &str, limit: u32) -> Result<Vec<ChatSummary>, StoreError>;

    /// Gives or renews the exclusive right to continue the owner's chat with this ID. Returns
    /// `false` and stores nothing if another request has the right at `now`, or if there is no such
    /// chat.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn claim_chat(
        &self,
        owner: &str,
        id: &str,
        claim: &ChatClaim,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Ends the exclusive right of `claimant` to continue the chat, if `claimant` has this right.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn release_chat(&self, owner: &str, id: &str, claimant: &str) -> Result<(), StoreError>;

    /// Removes the owner's chat with this ID.
    ///
    /// # Errors
    /// `not_found` if there is no such chat.
    async fn remove_chat(&self, owner: &str, id: &str) -> Result<(), StoreError>;

    /// Removes a chat at a known revision. Succeeds if the chat no longer exists.
    ///
    /// # Errors
    /// `conflict` if the chat has another revision, because another process has changed the chat.
    async fn remove_chat_at_revision(
        &self,
        owner: &str,
        id: &str,
        revision: u64,
    ) -> Result<(), StoreError>;

    /// Removes the chats last changed before this time, and returns their number.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_old_chats(&self, before: Timestamp) -> Result<u64, StoreError>;
}
