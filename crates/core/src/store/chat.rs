use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A chat with a model, between two steps.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatRecord {
    /// Its id.
    pub id: String,
    /// Whose it is; nobody else finds it.
    pub owner: String,
    /// What the program keeps of it, as JSON: opaque to the store.
    pub json: String,
    /// What a list shows of it, as JSON: opaque to the store as well.
    pub summary: String,
    /// Counts its changes, from 1.
    pub revision: u64,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// Who goes on with it now. Written when the chat is inserted, and by
    /// [`claim_chat`](ChatStore::claim_chat) afterwards.
    pub claim: Option<ChatClaim>,
}

/// Who goes on with a chat, and until when that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatClaim {
    /// A name that nobody else has.
    pub by: String,
    /// It holds until then.
    pub until: Timestamp,
}

/// What a list shows of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSummary {
    /// Its id.
    pub id: String,
    /// See [`ChatRecord::summary`].
    pub summary: String,
    /// See [`ChatRecord::claim`].
    pub claim: Option<ChatClaim>,
}

impl std::fmt::Debug for ChatRecord {
    /// Without what was said.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatRecord")
            .field("id", &self.id)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Keeps chats.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Adds a chat, at its revision 1.
    ///
    /// # Errors
    /// `conflict` when there is one of that id.
    async fn insert_chat(&self, chat: &ChatRecord) -> Result<(), StoreError>;

    /// The owner's chat of that id.
    ///
    /// # Errors
    /// Errors of the store.
    async fn chat(&self, owner: &str, id: &str) -> Result<Option<ChatRecord>, StoreError>;

    /// Puts the next revision in the place of the one before: nobody has changed it meanwhile.
    ///
    /// # Errors
    /// `conflict` when it is at another revision than the one before, or is not there any more.
    async fn replace_chat(&self, chat: &ChatRecord) -> Result<(), StoreError>;

    /// The owner's chats, those first that were changed last: at most `limit`.
    ///
    /// # Errors
    /// Errors of the store.
    async fn chats(&self, owner: &str, limit: u32) -> Result<Vec<ChatSummary>, StoreError>;

    /// Notes who goes on with the owner's chat of that id, unless somebody else does whose claim
    /// holds at `now`; whether it is noted. Where there is no such chat, it is not.
    ///
    /// # Errors
    /// Errors of the store.
    async fn claim_chat(
        &self,
        owner: &str,
        id: &str,
        claim: &ChatClaim,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Takes back the claim of `by`, if it is there.
    ///
    /// # Errors
    /// Errors of the store.
    async fn release_chat(&self, owner: &str, id: &str, by: &str) -> Result<(), StoreError>;

    /// Removes the owner's chat of that id.
    ///
    /// # Errors
    /// `not_found`.
    async fn remove_chat(&self, owner: &str, id: &str) -> Result<(), StoreError>;

    /// Forgets a chat as its owner knows it; one that is gone already is forgotten.
    ///
    /// # Errors
    /// A conflict when it has another revision: somebody else has changed it.
    async fn remove_revision(&self, owner: &str, id: &str, revision: u64)
    -> Result<(), StoreError>;

    /// Removes the chats that were changed last before that moment; how many.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_old_chats(&self, before: Timestamp) -> Result<u64, StoreError>;
}
