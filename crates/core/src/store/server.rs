use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A configured MCP server (requirement F1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRecord {
    /// Its id, a UUID; never changes.
    pub id: String,
    /// Its name, which no other server has.
    pub name: String,
    /// The rest of F1 as JSON: description, transport, address, timeout and so on. It is
    /// stored in clear: credentials belong into the [`SecretStore`](super::SecretStore).
    pub configuration: String,
    /// Whether it is used.
    pub enabled: bool,
    /// When a connection last came about.
    pub last_connected_at: Option<Timestamp>,
    /// When it was added; never changes.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// Whose the recorded calls, the approvals and the pins are that go by a server's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedRecords {
    /// That server's.
    Own,
    /// Those of another server of that name, which is not in the store.
    Anothers,
}

/// Keeps the configured servers.
#[async_trait]
pub trait ServerStore: Send + Sync {
    /// Adds a server.
    ///
    /// # Errors
    /// `conflict` when there is one of that id or name.
    async fn insert_server(&self, server: &ServerRecord) -> Result<(), StoreError>;

    /// Changes everything but `id` and `created_at`. Where the name changes, what is recorded
    /// under the old one goes by the new one from then on, if it is this server's.
    ///
    /// # Errors
    /// `not_found`; `conflict` when another server has that name.
    async fn update_server(
        &self,
        server: &ServerRecord,
        records: NamedRecords,
    ) -> Result<(), StoreError>;

    /// Notes that a connection came about; a server that is gone is no error.
    ///
    /// # Errors
    /// Errors of the store.
    async fn server_connected(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Removes a server with its recorded calls and the pins of its tools (F2), if they are its.
    ///
    /// # Errors
    /// `not_found`.
    async fn remove_server(&self, id: &str, records: NamedRecords) -> Result<(), StoreError>;

    /// The server of that id.
    ///
    /// # Errors
    /// Errors of the store.
    async fn server(&self, id: &str) -> Result<Option<ServerRecord>, StoreError>;

    /// The server of that name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn server_named(&self, name: &str) -> Result<Option<ServerRecord>, StoreError>;

    /// All servers, by name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn servers(&self) -> Result<Vec<ServerRecord>, StoreError>;
}
