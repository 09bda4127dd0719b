use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A definition that differs from the accepted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDefinition {
    /// Its hash.
    pub hash: String,
    /// The definition as JSON.
    pub definition: String,
    /// When it was first seen.
    pub seen_at: Timestamp,
}

/// Whose tools are meant: those that a server lists for everybody, or for one user alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinOwner<'a> {
    /// The id of the server.
    pub server: &'a str,
    /// The user; none where the server lists its tools for everybody.
    pub user: Option<&'a str>,
}

/// What a tool of an upstream server is accepted to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPin {
    /// The id of the server.
    pub server: String,
    /// The user whom the server lists the tool for; none where it lists its tools for everybody.
    pub user: Option<String>,
    /// The tool's name there.
    pub tool: String,
    /// The hash of the accepted definition.
    pub hash: String,
    /// The accepted definition as JSON.
    pub definition: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// What the server offers instead, if it does.
    pub pending: Option<PendingDefinition>,
}

/// Keeps what the tools of upstream servers are accepted to be.
#[async_trait]
pub trait PinStore: Send + Sync {
    /// Accepts a tool that was never seen before; the one that is kept, which is another if
    /// there was one.
    ///
    /// # Errors
    /// Errors of the store.
    async fn insert_pin(&self, pin: &ToolPin) -> Result<ToolPin, StoreError>;

    /// The tools of one owner, by name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn pins(&self, owner: PinOwner<'_>) -> Result<Vec<ToolPin>, StoreError>;

    /// The tools of a server, whoever they are listed for: everybody's first, by user and name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn pins_of_all(&self, server: &str) -> Result<Vec<ToolPin>, StoreError>;

    /// One tool.
    ///
    /// # Errors
    /// Errors of the store.
    async fn pin(&self, owner: PinOwner<'_>, tool: &str) -> Result<Option<ToolPin>, StoreError>;

    /// Notes what a server offers instead of what is accepted; none when it offers that again.
    ///
    /// # Errors
    /// `not_found`.
    async fn set_pending_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        pending: Option<&PendingDefinition>,
    ) -> Result<(), StoreError>;

    /// Accepts the pending definition with this hash.
    ///
    /// # Errors
    /// `not_found`; `conflict` when another definition is pending, or none.
    async fn accept_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        hash: &str,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Forgets the tools of an owner; having none is no error.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_pins(&self, owner: PinOwner<'_>) -> Result<(), StoreError>;
}
