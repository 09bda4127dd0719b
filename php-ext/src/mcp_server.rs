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
use crate::zend::Failure;
use client_slot::ClientSlot;
use tool::ServerTool;

/// A server whose tools are in one or several registries.
pub struct RegisteredMcpServer {
    server: Arc<Server>,
    client_slot: Arc<ClientSlot>,
    /// The connection that the tools use now.
    current: RefCell<CurrentConnection>,
}

/// A connection, and the process that it belongs to.
#[derive(Default)]
struct CurrentConnection {
    process: Option<u32>,
    connection: Weak<McpConnection>,
}

impl RegisteredMcpServer {
    /// Creates a server without a connection.
    pub fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            client_slot: Arc::default(),
            current: RefCell::default(),
        }
    }

    /// Returns the tools that the server lists, for registries. `prefix` is prepended to their
    /// names; `approval` is the policy of the server's entry. A tool with an invalid name or
    /// definition is skipped and logged.
    ///
    /// # Errors
    /// An exception of the client's logger.
    pub fn tools(
        &self,
        listed: &[Box<RawValue>],
        prefix: &str,
        approval: &RequireApproval,
        hooks: Option<Hooks<'_>>,
    ) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        // This client only identifies the server of the tools. It never connects.
        let identity = McpClient::new(self.server.config().clone());
        let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(listed.len());
        for listed in listed {
            match McpTool::from_listed(identity.clone(), prefix, listed) {
                Ok(tool) => {
                    let policy = approval.policy_for(tool.remote_name());
                    let tool = tool.with_approval_policy(policy);
                    tools.push(Arc::new(ServerTool::new(tool, &self.client_slot)));
                }
                Err(error) => {
                    let message = "MCP tool skipped";
                    let facts =
                        || json!({"url": self.server.display_url(), "error": error.to_string()});
                    match hooks {
                        Some(hooks) => hooks.log(LogLevel::Warning, message, facts)?,
                        None => log(LogLevel::Warning, message, facts),
                    }
                }
            }
        }
        Ok(tools)
    }

    /// Connects the tools, and must be called before they run. The tools use the client's current
    /// connection, whose callbacks the server knows; without a client, they use a connection of
    /// this process. A connection of the parent process is leaked, not dropped.
    ///
    /// # Errors
    /// A failure if the process cannot create a runtime, and an exception of the client's token
    /// store.
    pub fn use_client(&self, client: Option<(&ServerLink, Hooks<'_>)>) -> Result<(), Failure> {
        let is_forked = self.is_of_another_process();
        let (client, connection) = match client {
            None if !is_forked => return Ok(()),
            None => (sessions::client_for(&self.server)?, Weak::new()),
            Some((link, hooks)) => {
                let connection = link.connection(hooks)?;
                let known = self.current.borrow().connection.as_ptr();
                if !is_forked && std::ptr::eq(known, Arc::as_ptr(&connection)) {
                    return Ok(());
                }
                (connection.client().clone(), Arc::downgrade(&connection))
            }
        };
        self.client_slot.connect(client);
        self.current.replace(CurrentConnection {
            process: Some(forks::process_number()),
            connection,
        });
        Ok(())
    }

    /// Returns whether the tools use a connection of the parent process, or none yet.
    pub fn is_of_another_process(&self) -> bool {
        self.current.borrow().process != Some(forks::process_number())
    }
}
