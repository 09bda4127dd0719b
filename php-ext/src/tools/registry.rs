//! The state of a `ToolRegistry`.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use ext_php_rs::types::Zval;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;

use super::registered_clients::RegisteredClients;
use crate::mcp_server::RegisteredMcpServer;
use crate::zend::{Failure, HiddenValue, Object, Result, State, StateClass, member, read_state};

pub const NAME: &str = "Pillion\\ToolRegistry";
pub static CLASS: StateClass<Registry> = StateClass::new();

/// The Rust state of a registry object. The property `$tools` contains the PHP objects of the
/// tools, by name, and the object's `HiddenValue` contains the clients of MCP servers. The garbage
/// collector traverses the property and the `HiddenValue`.
pub struct Registry {
    pub tools: Arc<ToolRegistry>,
    /// Runs the calls that are made through the registry or through a tool object.
    pub executor: Executor,
    /// The registration numbers of the PHP tools, by name.
    pub php_tool_numbers: RefCell<HashMap<String, u64>>,
    /// The MCP servers of the registered tools. A server that was registered with a client is
    /// stored with the client's index among the clients of this registry.
    servers: RefCell<Vec<(Rc<RegisteredMcpServer>, Option<usize>)>>,
}

impl State for Registry {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

impl Registry {
    pub fn new() -> Self {
        let tools = Arc::new(ToolRegistry::new());
        Self {
            executor: Executor::new(Arc::clone(&tools), ExecutorConfig::default()),
            tools,
            php_tool_numbers: RefCell::default(),
            servers: RefCell::default(),
        }
    }

    /// Returns the clients that MCP servers were registered with.
    ///
    /// # Errors
    /// An `Error` if `this` is not a registry.
    pub fn clients(&self, this: Object<'_>) -> Result<RegisteredClients> {
        HiddenValue::for_object::<Self>(this)
            .map(|clients| RegisteredClients::from_value(&clients.get()))
    }

    /// Prepares the MCP servers before tools run. In a forked child, replaces the connections of
    /// the parent process. With `has_mcp_calls`, also updates the tools whose client has a new
    /// connection.
    ///
    /// # Errors
    /// The same errors as [`RegisteredMcpServer::use_client`].
    pub fn prepare_servers(&self, clients: &RegisteredClients, has_mcp_calls: bool) -> Result<()> {
        // The list of servers is copied, because PHP code that runs in the loop (such as a token
        // store) may register other servers.
        let servers = self.servers.borrow().clone();
        for (server, client_index) in servers {
            if has_mcp_calls || server.is_of_another_process() {
                server.use_client(clients.get(client_index)?)?;
            }
        }
        Ok(())
    }

    /// Adds the MCP server of newly registered tools, with the index of the client that the server
    /// was registered with.
    pub fn add_server(&self, server: Rc<RegisteredMcpServer>, client_index: Option<usize>) {
        let mut servers = self.servers.borrow_mut();
        if !servers
            .iter()
            .any(|(existing_server, _)| Rc::ptr_eq(existing_server, &server))
        {
            servers.push((server, client_index));
        }
    }

    /// Returns whether the tool with this name or alias is an MCP tool.
    pub fn is_mcp_tool(&self, name: &str) -> bool {
        let tool = self.tools.get(name);
        tool.is_some_and(|tool| tool.origin().is_mcp())
    }

    /// Returns whether the tool with this name or alias is a PHP tool.
    pub fn is_php_tool(&self, name: &str) -> bool {
        self.tools
            .get(name)
            .is_some_and(|tool| self.php_tool_number(tool.name().as_str()).is_some())
    }

    /// Returns the names of the PHP tools.
    pub fn php_tool_names(&self) -> HashSet<String> {
        self.php_tool_numbers.borrow().keys().cloned().collect()
    }

    /// Returns the registration number of the PHP tool that currently has this name.
    pub fn php_tool_number(&self, name: &str) -> Option<u64> {
        self.php_tool_numbers.borrow().get(name).copied()
    }
}

/// Returns a registry object and its state.
pub fn read_registry(value: &Zval) -> Result<(Object<'_>, &Registry)> {
    let object =
        Object::from_value(value).ok_or_else(|| Failure::error("The registry is not an object"))?;
    Ok((object, read_state(object)?))
}

/// Returns whether a value is a `ToolRegistry`.
pub fn is_registry(value: &Zval) -> bool {
    Object::from_instance(value, CLASS.get()).is_some()
}

/// Returns the PHP object of the tool with this name; the caller must resolve aliases first.
pub fn find_tool(this: Object<'_>, name: &str) -> Result<Option<Zval>> {
    Ok(member(&tool_objects(this)?, name))
}

/// Returns the PHP objects of the tools, by name.
pub fn tool_objects(this: Object<'_>) -> Result<Zval> {
    this.get(CLASS.get(), "tools")
}
