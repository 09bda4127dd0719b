use ext_php_rs::types::Zval;

use crate::clients::mcp_sse_client::any_client_of;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ServerLink, WaitingClient};
use crate::zend::{Failure, Object, entries, list_of};

/// The clients that MCP servers were registered with, each once. Their callbacks answer requests
/// from the servers.
pub struct Clients(Vec<Client>);

/// A client of an MCP server.
pub struct Client(Zval);

impl Clients {
    /// Reads the clients from the hidden value of a registry.
    pub fn from_value(hidden: &Zval) -> Self {
        let clients = entries(hidden);
        Self(clients.map(|(_, client)| Client(client)).collect())
    }

    /// Returns these clients as the hidden value of a registry.
    pub fn to_value(&self) -> Zval {
        list_of(self.0.iter().map(|client| client.0.shallow_clone()))
    }

    /// Returns the index of a client; adds the client if necessary.
    pub fn index_of_or_add(&mut self, client: &Zval) -> usize {
        let is_same = |known: &Client| Object::from_value(&known.0) == Object::from_value(client);
        self.0.iter().position(is_same).unwrap_or_else(|| {
            self.0.push(Client(client.shallow_clone()));
            self.0.len() - 1
        })
    }

    /// Returns all clients.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.0.iter()
    }

    /// Returns the link and the hooks of the client with this index.
    pub fn get(&self, index: Option<usize>) -> Result<Option<(&ServerLink, Hooks<'_>)>, Failure> {
        match index.and_then(|index| self.0.get(index)) {
            Some(client) => any_client_of(&client.0),
            None => Ok(None),
        }
    }
}

impl Client {
    /// Returns the client's link and hooks.
    ///
    /// # Errors
    /// An `Error` if the client's constructor has not run.
    pub fn parts(&self) -> Result<(&ServerLink, Hooks<'_>), Failure> {
        any_client_of(&self.0)?.ok_or_else(|| Failure::error("The client is none"))
    }

    /// Lets the client handle its server's requests during a wait.
    ///
    /// # Errors
    /// The failures of [`WaitingClient::new`].
    pub fn prepare_wait(&self) -> Result<WaitingClient<'_>, Failure> {
        let (link, hooks) = self.parts()?;
        WaitingClient::new(link, hooks)
    }
}
