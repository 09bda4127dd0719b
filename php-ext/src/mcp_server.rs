//! Registers the tools of a whole MCP server.

mod client_slot;
mod tool;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use pillion_core::tool::Tool;
use pillion_mcp_client::McpClient;
use pillion_mcp_tools::McpTool;
use serde_json::json;
use serde_json::value::RawValue;

use crate::log::{LogLevel, log};
use crate::mcp::hooks::Hooks;
use crate::mcp::{McpConnection, RequireApproval, Server, ServerLink, sessions};
use crate::runtime::forks;
use crate::zend::Result;
use client_slot::ClientSlot;
use tool::ServerTool;

/// An MCP server whose tools are registered in at least one registry.
pub struct RegisteredMcpServer {
    server: Arc<Server>,
    client_slot: Arc<ClientSlot>,
    /// The connection that the tools use now.
    current_connection: RefCell<CurrentConnection>,
}

/// A connection, and the process that it belongs to.
#[derive(Default)]
struct CurrentConnection {
    process_number: Option<u32>,
    connection: Weak<McpConnection>,
}

impl RegisteredMcpServer {
    /// Creates a server without a connection.
    pub fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            client_slot: Arc::default(),
            current_connection: RefCell::default(),
        }
    }

    /// Returns the tools that the server lists, for registries. `prefix` is prepended to the tools'
    /// names; `approval` is the policy of the server's entry. A tool with an invalid name or
    /// definition is skipped and logged.
    ///
    /// # Errors
    /// An exception of the client's logger.
    pub fn create_tools(
        &self,
        listed_tools: &[Box<RawValue>],
        prefix: &str,
        approval: &RequireApproval,
        hooks: Option<Hooks<'_>>,
    ) -> Result<Vec<Arc<dyn Tool>>> {
        // The client never connects: it only identifies the server of the tools.
        let identity_client = McpClient::new(self.server.config().clone());
        let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(listed_tools.len());
        for listed_tool in listed_tools {
            match McpTool::from_listed(identity_client.clone(), prefix, listed_tool) {
                Ok(tool) => {
                    let policy = approval.policy_for(tool.remote_name());
                    let mcp_tool = tool.with_approval_policy(policy);
                    tools.push(Arc::new(ServerTool::new(mcp_tool, &self.client_slot)));
                }
                Err(error) => {
                    let message = "MCP tool skipped";
                    let context =
                        || json!({"url": self.server.display_url(), "error": error.to_string()});
                    match hooks {
                        Some(hooks) => hooks.log(LogLevel::Warning, message, context)?,
                        None => log(LogLevel::Warning, message, context),
                    }
                }
            }
        }
        Ok(tools)
    }

    /// Connects the tools to their server. Must be called before the tools run.
    ///
    /// With a client, the tools use the client's current connection, so that the client's callbacks
    /// can handle the server's requests. Without a client, the tools use a connection of this
    /// process. A forked child leaks the connection of its parent instead of dropping it.
    ///
    /// # Errors
    /// A failure if the process cannot create a runtime, and an exception of the client's token
    /// store.
    pub fn use_client(&self, client: Option<(&ServerLink, Hooks<'_>)>) -> Result<()> {
        let is_forked = self.is_of_another_process();
        let (mcp_client, connection) = match client {
            None if !is_forked => return Ok(()),
            None => (sessions::client_for(&self.server)?, Weak::new()),
            Some((link, hooks)) => {
                let connection = link.connection(hooks)?;
                let previous_connection = self.current_connection.borrow().connection.as_ptr();
                if !is_forked && std::ptr::eq(previous_connection, Arc::as_ptr(&connection)) {
                    return Ok(());
                }
                (connection.client().clone(), Arc::downgrade(&connection))
            }
        };
        self.client_slot.replace_client(mcp_client);
        self.current_connection.replace(CurrentConnection {
            process_number: Some(forks::process_number()),
            connection,
        });
        Ok(())
    }

    /// Returns whether the tools have no connection yet, or only a connection of the parent
    /// process.
    pub fn is_of_another_process(&self) -> bool {
        self.current_connection.borrow().process_number != Some(forks::process_number())
    }
}
