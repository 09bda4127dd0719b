use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A configured MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRecord {
    /// The ID of the server, a UUID; never changes.
    pub id: String,
    /// The name of the server; unique.
    pub name: String,
    /// The configuration as JSON: description, transport, URL, timeout and so on. Stored
    /// unencrypted: credentials belong in the [`SecretStore`](super::SecretStore).
    pub configuration: String,
    /// Whether the server is enabled.
    pub enabled: bool,
    /// The time at which a connection to the server was last established.
    pub last_connected_at: Option<Timestamp>,
    /// The time at which the server was added; never changes.
    pub created_at: Timestamp,
    /// The time at which the configuration of the server was last changed.
    pub updated_at: Timestamp,
}

/// The owner of the calls, approvals and pins that are recorded under a server's name. A server of
/// the configuration file can have the same name as a server in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOwner {
    /// The server in the store owns the records.
    StoredServer,
    /// A server that is not in the store, but in the configuration file, owns the records.
    UnstoredServer,
}

/// Stores configured MCP servers.
#[async_trait]
pub trait ServerStore: Send + Sync {
    /// Adds a server.
    ///
    /// # Errors
    /// `conflict` if a server with this ID or name exists.
    async fn insert_server(&self, server: &ServerRecord) -> Result<(), StoreError>;

    /// Changes everything except `id` and `created_at`. If the name changes and this server owns
    /// the records under the old name, the records are renamed, too.
    ///
    /// # Errors
    /// `not_found` if there is no such server; `conflict` if another server has this name.
    async fn update_server(
        &self,
        server: &ServerRecord,
        record_owner: RecordOwner,
    ) -> Result<(), StoreError>;

    /// Records that a connection was established. Does nothing if the server no longer exists.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn mark_server_connected(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Removes a server. If `record_owner` is [`RecordOwner::StoredServer`], also removes the calls
    /// and pins that are recorded under the name of the server.
    ///
    /// # Errors
    /// `not_found` if there is no such server.
    async fn remove_server(&self, id: &str, record_owner: RecordOwner) -> Result<(), StoreError>;

    /// Returns the server with this ID.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_server(&self, id: &str) -> Result<Option<ServerRecord>, StoreError>;

    /// Returns the server with this name.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_server_by_name(&self, name: &str) -> Result<Option<ServerRecord>, StoreError>;

    /// Returns all servers, ordered by name.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn servers(&self) -> Result<Vec<ServerRecord>, StoreError>;
}
