use ext_php_rs::types::Zval;

use crate::clients::mcp_sse_client::find_any_client;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ServerLink, WaitingClient};
use crate::zend::{Failure, Object, Result, entries, new_list};

/// The clients that were passed to `registerMcpServer()`, without duplicates. The clients'
/// callbacks handle requests from the servers.
pub struct RegisteredClients(Vec<RegisteredClient>);

/// A client of an MCP server.
pub struct RegisteredClient(Zval);

impl RegisteredClients {
    /// Reads the clients from the `HiddenValue` of a registry object.
    pub fn from_value(hidden_value: &Zval) -> Self {
        let clients = entries(hidden_value);
        Self(clients.map(|(_, value)| RegisteredClient(value)).collect())
    }

    /// Converts the registered clients to a PHP value, for the `HiddenValue` of a registry object.
    pub fn to_value(&self) -> Zval {
        new_list(self.0.iter().map(|client| client.0.shallow_clone()))
    }

    /// Returns the index of a client; adds the client if necessary.
    pub fn find_or_add(&mut self, client: &Zval) -> usize {
        let is_same_client = |registered_client: &RegisteredClient| {
            Object::from_value(&registered_client.0) == Object::from_value(client)
        };
        self.0.iter().position(is_same_client).unwrap_or_else(|| {
            self.0.push(RegisteredClient(client.shallow_clone()));
            self.0.len() - 1
        })
    }

    /// Returns all clients.
    pub fn iter(&self) -> impl Iterator<Item = &RegisteredClient> {
        self.0.iter()
    }

    /// Returns the link and the hooks of the client with this index.
    pub fn get(&self, index: Option<usize>) -> Result<Option<(&ServerLink, Hooks<'_>)>> {
        match index.and_then(|index| self.0.get(index)) {
            Some(client) => find_any_client(&client.0),
            None => Ok(None),
        }
    }
}

impl RegisteredClient {
    /// Returns the client's link and hooks.
    ///
    /// # Errors
    /// An `Error` if the client's constructor has not run.
    pub fn link_and_hooks(&self) -> Result<(&ServerLink, Hooks<'_>)> {
        find_any_client(&self.0)?.ok_or_else(|| {
            Failure::error("A registered client is neither an McpClient nor an MCPSSEClient")
        })
    }

    /// Lets the client handle its server's requests during a wait.
    ///
    /// # Errors
    /// The same errors as [`WaitingClient::new`].
    pub fn prepare_wait(&self) -> Result<WaitingClient<'_>> {
        let (link, hooks) = self.link_and_hooks()?;
        WaitingClient::new(link, hooks)
    }
}
