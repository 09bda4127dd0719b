//! The tools of a whole MCP server in a registry (requirements B4, F6).

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use pillion_core::mcp::McpTool;
use pillion_core::tool::Tool;
use serde_json::json;
use serde_json::value::RawValue;

use crate::log::log;
use crate::mcp::hooks::Hooks;
use crate::mcp::{Connection, Link, RequireApproval, Server};
use crate::runtime::{self, forks};
use crate::settings::LogLevel;
use crate::zend::Failure;

/// A server and the tools it listed.
pub struct McpServer {
    server: Arc<Server>,
    /// What its entry says of approvals.
    approval: RequireApproval,
    /// The place of the client among those of the registry, if it came as one.
    client: Option<usize>,
    prefix: String,
    listed: Vec<Box<RawValue>>,
    /// What the tools in the registry call.
    called: RefCell<Called>,
}

/// Tools for the registry.
pub struct Offered {
    pub tools: Vec<Arc<dyn Tool>>,
    pub called: Called,
}

/// A connection of a process.
#[derive(Default)]
pub struct Called {
    process: Option<u32>,
    connection: Weak<Connection>,
}

impl McpServer {
    /// A server and its tools as it listed them. `prefix` goes before their names here.
    pub fn new(
        server: Arc<Server>,
        approval: RequireApproval,
        client: Option<usize>,
        prefix: &str,
        listed: Vec<Box<RawValue>>,
    ) -> Self {
        Self {
            server,
            approval,
            client,
            prefix: prefix.to_owned(),
            listed,
            called: RefCell::default(),
        }
    }

    /// The place of the client among those of the registry, if it came as one.
    pub fn client(&self) -> Option<usize> {
        self.client
    }

    /// The tools for the registry, on the connection of this process, or on that of the client,
    /// whose callbacks the server is told of. One with an illegal name or definition is left
    /// out, with a line in the log (F6).
    ///
    /// # Errors
    /// When the process has no runtime; what the client's token store or logger throws.
    pub fn tools(&self, client: Option<(&Link, Hooks<'_>)>) -> Result<Offered, Failure> {
        let (mcp, connection) = match client {
            None => (runtime::mcp_client(&self.server)?, Weak::new()),
            Some((link, hooks)) => {
                let connection = link.connection(hooks)?;
                (connection.client().clone(), Arc::downgrade(&connection))
            }
        };
        let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(self.listed.len());
        for listed in &self.listed {
            match McpTool::from_listed(mcp.clone(), &self.prefix, listed) {
                Ok(tool) => {
                    let policy = self.approval.of(tool.remote_name());
                    tools.push(Arc::new(tool.with_approval_policy(policy)));
                }
                Err(error) => {
                    let message = "MCP tool left out";
                    let facts =
                        || json!({"url": self.server.shown_url(), "error": error.to_string()});
                    match client {
                        Some((_, hooks)) => hooks.log(LogLevel::Warning, message, facts)?,
                        None => log(LogLevel::Warning, message, facts),
                    }
                }
            }
        }
        let called = Called {
            process: Some(forks::so_far()),
            connection,
        };
        Ok(Offered { tools, called })
    }

    /// The tools that these came with are in the registry now.
    pub fn have_registered(&self, called: Called) {
        self.called.replace(called);
    }

    /// Whether the tools call another connection than the client has: from before it got other
    /// callbacks or tokens.
    ///
    /// # Errors
    /// As [`tools`](Self::tools).
    pub fn is_outdated(&self, client: Option<(&Link, Hooks<'_>)>) -> Result<bool, Failure> {
        let Some((link, hooks)) = client else {
            return Ok(false);
        };
        let connection = link.connection(hooks)?;
        let called = self.called.borrow();
        let is_it = std::ptr::eq(called.connection.as_ptr(), Arc::as_ptr(&connection));
        Ok(!is_it)
    }

    /// Whether the tools are those of the parent of this process.
    pub fn is_of_another_process(&self) -> bool {
        self.called.borrow().process != Some(forks::so_far())
    }
}
