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

/// What a tool of an upstream server is accepted to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPin {
    /// The id of the server.
    pub server: String,
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
    /// Only those of the store itself.
    async fn insert_pin(&self, pin: &ToolPin) -> Result<ToolPin, StoreError>;

    /// The tools of a server, by name.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn pins(&self, server: &str) -> Result<Vec<ToolPin>, StoreError>;

    /// Notes what a server offers instead of what is accepted; none when it offers that again.
    ///
    /// # Errors
    /// `not_found`.
    async fn set_pending_pin(
        &self,
        server: &str,
        tool: &str,
        pending: Option<&PendingDefinition>,
    ) -> Result<(), StoreError>;

    /// Accepts the pending definition with this hash.
    ///
    /// # Errors
    /// `not_found`; `conflict` when another definition is pending, or none.
    async fn accept_pin(
        &self,
        server: &str,
        tool: &str,
        hash: &str,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Forgets a tool; having none is no error.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn remove_pin(&self, server: &str, tool: &str) -> Result<(), StoreError>;
}
