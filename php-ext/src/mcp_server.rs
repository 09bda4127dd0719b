//! The tools of a whole MCP server in a registry (requirements B4, F6).

mod line;
mod tool;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use pillion_core::mcp::{McpClient, McpTool};
use pillion_core::tool::Tool;
use serde_json::json;
use serde_json::value::RawValue;

use crate::log::log;
use crate::mcp::hooks::Hooks;
use crate::mcp::{Connection, Link, RequireApproval, Server};
use crate::runtime::{self, forks};
use crate::settings::LogLevel;
use crate::zend::Failure;
use line::Line;
use tool::ServerTool;

/// A server whose tools are in registries, in one or in several.
pub struct McpServer {
    server: Arc<Server>,
    line: Arc<Line>,
    /// What the tools call now.
    called: RefCell<Called>,
}

/// A connection of a process.
#[derive(Default)]
struct Called {
    process: Option<u32>,
    connection: Weak<Connection>,
}

impl McpServer {
    /// A server that is not connected yet.
    pub fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            line: Arc::default(),
            called: RefCell::default(),
        }
    }

    /// The tools that it listed, for registries. `prefix` goes before their names here; `approval`
    /// is what its entry says. One with an illegal name or definition is left out, with a line
    /// in the log (F6).
    ///
    /// # Errors
    /// What the logger of the client throws.
    pub fn tools(
        &self,
        listed: &[Box<RawValue>],
        prefix: &str,
        approval: &RequireApproval,
        hooks: Option<Hooks<'_>>,
    ) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        // Says where the tools are from, and is never connected.
        let place = McpClient::new(self.server.config().clone());
        let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(listed.len());
        for listed in listed {
            match McpTool::from_listed(place.clone(), prefix, listed) {
                Ok(tool) => {
                    let policy = approval.of(tool.remote_name());
                    let tool = tool.with_approval_policy(policy);
                    tools.push(Arc::new(ServerTool::new(tool, &self.line)));
                }
                Err(error) => {
                    let message = "MCP tool left out";
                    let facts =
                        || json!({"url": self.server.shown_url(), "error": error.to_string()});
                    match hooks {
                        Some(hooks) => hooks.log(LogLevel::Warning, message, facts)?,
                        None => log(LogLevel::Warning, message, facts),
                    }
                }
            }
        }
        Ok(tools)
    }

    /// To be done before the tools run: has them call the connection that the client has now,
    /// whose callbacks the server is told of, or without a client one of this process. That of a
    /// parent process is forgotten, not dropped.
    ///
    /// # Errors
    /// When the process has no runtime; what the client's token store throws.
    pub fn follow(&self, client: Option<(&Link, Hooks<'_>)>) -> Result<(), Failure> {
        let is_forked = self.is_of_another_process();
        let (client, connection) = match client {
            None if !is_forked => return Ok(()),
            None => (runtime::mcp_client(&self.server)?, Weak::new()),
            Some((link, hooks)) => {
                let connection = link.connection(hooks)?;
                let known = self.called.borrow().connection.as_ptr();
                if !is_forked && std::ptr::eq(known, Arc::as_ptr(&connection)) {
                    return Ok(());
                }
                (connection.client().clone(), Arc::downgrade(&connection))
            }
        };
        self.line.connect(client);
        self.called.replace(Called {
            process: Some(forks::so_far()),
            connection,
        });
        Ok(())
    }

    /// Whether the tools call the connection of the parent of this process, or none yet.
    pub fn is_of_another_process(&self) -> bool {
        self.called.borrow().process != Some(forks::so_far())
    }
}
