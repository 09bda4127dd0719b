//! The state of a `ToolRegistry`.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use ext_php_rs::types::Zval;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;

use super::registered_clients::Clients;
use crate::mcp_server::RegisteredMcpServer;
use crate::zend::{Failure, HiddenValue, Object, State, StateClass, member, state_of};

pub const NAME: &str = "Pillion\\ToolRegistry";
pub static CLASS: StateClass<Registry> = StateClass::new();

/// The engine's state of a registry. The PHP objects of the tools are in the property `$tools`, by
/// name, where the garbage collector sees them; the hidden value contains the clients of MCP
/// servers.
pub struct Registry {
    pub tools: Arc<ToolRegistry>,
    /// Runs the calls that are made through the registry or through a tool object.
    pub executor: Executor,
    /// The registered PHP tools: their names and numbers.
    pub php_tools: RefCell<HashMap<String, u64>>,
    /// The MCP servers of the registered tools. A server that was registered with a client has the
    /// index of the client among the clients of this registry.
    servers: RefCell<Vec<(Rc<RegisteredMcpServer>, Option<usize>)>>,
}

impl State for Registry {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

impl Registry {
    pub fn new() -> Self {
        let tools = Arc::new(ToolRegistry::new());
        Self {
            executor: Executor::new(Arc::clone(&tools), ExecutorConfig::default()),
            tools,
            php_tools: RefCell::default(),
            servers: RefCell::default(),
        }
    }

    /// Returns the clients that MCP servers were registered with.
    ///
    /// # Errors
    /// An `Error` if `this` is not a registry.
    pub fn clients(&self, this: Object<'_>) -> Result<Clients, Failure> {
        HiddenValue::for_object::<Self>(this).map(|clients| Clients::from_value(&clients.get()))
    }

    /// Prepares the MCP servers before tools run. In a forked child, all servers get their own
    /// connections. Before MCP tools run, the tools of a client whose connection has changed get
    /// the new connection.
    ///
    /// # Errors
    /// The failures of [`RegisteredMcpServer::use_client`].
    pub fn prepare_servers(&self, clients: &Clients, has_mcp: bool) -> Result<(), Failure> {
        // The list is copied, because a client's token store may register other servers in the
        // meantime.
        let servers = self.servers.borrow().clone();
        for (server, client) in servers {
            if has_mcp || server.is_of_another_process() {
                server.use_client(clients.get(client)?)?;
            }
        }
        Ok(())
    }

    /// Adds the server of registered tools, with the index of its client.
    pub fn add_server(&self, server: Rc<RegisteredMcpServer>, client: Option<usize>) {
        let mut servers = self.servers.borrow_mut();
        if !servers.iter().any(|(known, _)| Rc::ptr_eq(known, &server)) {
            servers.push((server, client));
        }
    }

    /// Returns whether the tool with this name or alias is an MCP tool.
    pub fn is_mcp(&self, name: &str) -> bool {
        let tool = self.tools.get(name);
        tool.is_some_and(|tool| tool.origin().is_mcp())
    }

    /// Returns whether the tool with this name or alias is a PHP tool.
    pub fn is_php(&self, name: &str) -> bool {
        self.tools
            .get(name)
            .is_some_and(|tool| self.php_tool(tool.name().as_str()).is_some())
    }

    /// Returns the names of the PHP tools.
    pub fn php_tool_names(&self) -> HashSet<String> {
        self.php_tools.borrow().keys().cloned().collect()
    }

    /// Returns the number of the PHP tool that currently has this name.
    pub fn php_tool(&self, name: &str) -> Option<u64> {
        self.php_tools.borrow().get(name).copied()
    }
}

/// Returns a registry object and its state.
pub fn registry_of(value: &Zval) -> Result<(Object<'_>, &Registry), Failure> {
    let object =
        Object::from_value(value).ok_or_else(|| Failure::error("The registry is not an object"))?;
    Ok((object, state_of(object)?))
}

/// Returns whether a value is a `ToolRegistry`.
pub fn is_registry(value: &Zval) -> bool {
    Object::from_value(value).is_some_and(|object| object.instance_of(CLASS.get()))
}

/// Returns the PHP object of the tool with this name; the caller must resolve aliases first.
pub fn find_tool(this: Object<'_>, name: &str) -> Result<Option<Zval>, Failure> {
    Ok(member(&objects(this)?, name))
}

/// Returns the PHP objects of the tools, by name.
pub fn objects(this: Object<'_>) -> Result<Zval, Failure> {
    this.get(CLASS.get(), "tools")
}
