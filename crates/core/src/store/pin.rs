use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A tool definition that differs from the accepted definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDefinition {
    /// The hash of the pending definition.
    pub hash: String,
    /// The pending definition, as JSON.
    pub definition: String,
    /// The time at which the pending definition was first seen.
    pub seen_at: Timestamp,
}

/// The owner of pins: a server whose tools are the same for all users, or one user of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinOwner<'a> {
    /// The name of the MCP server.
    pub server: &'a str,
    /// The user; `None` if the server lists the same tools for all users.
    pub user: Option<&'a str>,
}

/// The accepted definition of an MCP server's tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPin {
    /// The name of the MCP server.
    pub server: String,
    /// The user for whom the server lists the tool; `None` if the server lists the same tools for
    /// all users.
    pub user: Option<String>,
    /// The name of the tool on the server.
    pub tool: String,
    /// The hash of the accepted definition.
    pub hash: String,
    /// The accepted definition, as JSON.
    pub definition: String,
    /// The time at which the definition was accepted.
    pub accepted_at: Timestamp,
    /// The definition that the server now offers, if it differs from the accepted definition.
    pub pending: Option<PendingDefinition>,
    /// The hash of the definition that an operator rejected last. A definition with this hash stays
    /// rejected even if the server offers the accepted definition in the meantime.
    pub rejected_hash: Option<String>,
}

impl ToolPin {
    /// Returns whether an operator has rejected the definition that the server offers.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| self.rejected_hash.as_ref() == Some(&pending.hash))
    }

    /// Returns whether the definition that the server offers is neither accepted nor rejected.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.pending.is_some() && !self.is_rejected()
    }
}

/// Stores the accepted definitions of MCP servers' tools.
#[async_trait]
pub trait PinStore: Send + Sync {
    /// Pins a tool's definition as accepted, and returns the stored pin. If the tool is already
    /// pinned, its earlier pin stays unchanged and is returned.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn insert_pin(&self, pin: &ToolPin) -> Result<ToolPin, StoreError>;

    /// Returns the pins of one owner, ordered by tool name.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn pins(&self, owner: PinOwner<'_>) -> Result<Vec<ToolPin>, StoreError>;

    /// Returns all pins of a server: first the pins that apply to all users, then the pins of
    /// individual users, ordered by user and tool name.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn server_pins(&self, server: &str) -> Result<Vec<ToolPin>, StoreError>;

    /// Returns the number of tools whose changed definitions are neither accepted nor rejected,
    /// over all servers and users.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn count_pending_pins(&self) -> Result<u64, StoreError>;

    /// Returns the pin of one tool.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
    ) -> Result<Option<ToolPin>, StoreError>;

    /// Stores the definition that the server offers in place of the accepted definition; `None` if
    /// the server offers the accepted definition again.
    ///
    /// # Errors
    /// `not_found` if there is no such pin.
    async fn set_pending_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        pending: Option<&PendingDefinition>,
    ) -> Result<(), StoreError>;

    /// Accepts the pending definition with this hash.
    ///
    /// # Errors
    /// `not_found` if there is no such pin; `conflict` if no definition or another definition is
    /// pending.
    async fn accept_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        hash: &str,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Rejects the pending definition with this hash, which stays pending. Later definitions are
    /// not rejected.
    ///
    /// # Errors
    /// `not_found` if there is no such pin; `conflict` if no definition or another definition is
    /// pending.
    async fn reject_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        hash: &str,
    ) -> Result<(), StoreError>;

    /// Removes the pins of an owner. Succeeds if there are none.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_pins(&self, owner: PinOwner<'_>) -> Result<(), StoreError>;
}
