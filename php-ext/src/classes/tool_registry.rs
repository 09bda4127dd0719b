//! `ToolRegistry`: a set of tools.

mod clients;
mod lookup;
mod offer;
mod registration;
mod services;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::PropertyFlags;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ce;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::{Value, json};

use super::interfaces::MODEL;
use super::tool_result;
use crate::exception;
use crate::execution::{self, ExecutionParticipants, Mode};
use crate::json::to_value_as;
use crate::mcp_server::RegisteredMcpServer;
use crate::zend::{
    Class, Failure, HiddenValue, Method, MethodCall, Object, Outcome, Parameter, Property, State,
    StateClass, Type, construct, empty_array, member, state_of,
};

pub use clients::Clients;

pub const NAME: &str = "Pillion\\ToolRegistry";
static CLASS: StateClass<Registry> = StateClass::new();

/// The engine's state of a registry. The PHP objects of the tools are in the property `$tools`, by
/// name, where the garbage collector sees them; the hidden value contains the clients of MCP
/// servers.
pub struct Registry {
    tools: Arc<ToolRegistry>,
    /// Runs calls made through the registry or through a tool object.
    executor: Executor,
    /// The PHP tools: their names and numbers.
    php_tools: RefCell<HashMap<String, u64>>,
    /// The MCP servers of the registered tools, each with the index of its client among the clients
    /// of this registry, if it was registered with one.
    servers: RefCell<Vec<(Rc<RegisteredMcpServer>, Option<usize>)>>,
}

impl State for Registry {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

impl Registry {
    fn new() -> Self {
        let tools = Arc::new(ToolRegistry::new());
        Self {
            executor: Executor::new(Arc::clone(&tools), ExecutorConfig::default()),
            tools,
            php_tools: RefCell::default(),
            servers: RefCell::default(),
        }
    }

    pub fn tools(&self) -> &Arc<ToolRegistry> {
        &self.tools
    }

    /// Returns the clients that servers were registered with.
    ///
    /// # Errors
    /// An `Error` if `this` is not a registry.
    pub fn clients(&self, this: Object<'_>) -> Result<Clients, Failure> {
        HiddenValue::of::<Self>(this).map(|clients| Clients::of(&clients.get()))
    }

    /// Prepares the servers before tools run: in a forked child, all servers get their own
    /// connections; before MCP tools run, the tools of a client whose connection has changed get
    /// the new connection.
    ///
    /// # Errors
    /// Same as [`RegisteredMcpServer::use_client`].
    pub fn prepare_servers(&self, clients: &Clients, has_mcp: bool) -> Result<(), Failure> {
        // A client's token store may register other servers in the meantime.
        let servers = self.servers.borrow().clone();
        for (server, client) in servers {
            if has_mcp || server.is_of_another_process() {
                server.use_client(clients.get(client)?)?;
            }
        }
        Ok(())
    }

    /// Records a server whose tools are registered, with the index of its client.
    fn add_server(&self, server: Rc<RegisteredMcpServer>, client: Option<usize>) {
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

pub(super) fn register() -> ZendResult<()> {
    let tool = Type::class("Pillion\\ToolInterface");
    let definition = Type::class("Pillion\\ToolInterface|Pillion\\ToolDefinition");
    let name = Parameter::required("name", Type::STRING);
    let model = Parameter::required("model", MODEL);
    let class = Class::new(NAME)
        .implements(ce::countable())
        .property(Property::new(
            PropertyFlags::Private,
            "tools",
            Type::ARRAY,
            empty_array(),
        ))
        .method(Method::new("__construct", construct_empty))
        .method(
            Method::new("withBuiltins", registration::with_builtins)
                .make_static()
                .parameters(&[Parameter::optional("services", Type::ARRAY, "[]").sensitive()])
                .returns(Type::class(NAME)),
        )
        .method(
            Method::new("register", registration::register_tool)
                .parameters(&[
                    Parameter::required("tool", definition),
                    Parameter::optional("handler", Type::CALLABLE.nullable(), "null"),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::VOID),
        )
        .method(
            Method::new("registerObject", registration::register_object)
                .parameters(&[
                    Parameter::required("objectOrClass", Type::OBJECT.or(Type::STRING)),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("registerMcpServer", registration::register_mcp_server)
                .parameters(&[
                    Parameter::required(
                        "server",
                        Type::class("Pillion\\MCPSSEClient|Pillion\\McpClient").or(Type::ARRAY),
                    )
                    .sensitive(),
                    Parameter::optional("prefix", Type::STRING, "''"),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("alias", registration::alias)
                .parameters(&[
                    Parameter::required("alias", Type::STRING),
                    Parameter::required("tool", Type::STRING),
                ])
                .returns(Type::VOID),
        )
        .method(
            Method::new("unregister", registration::unregister)
                .parameters(&[name])
                .returns(Type::BOOL),
        )
        .method(
            Method::new("has", lookup::has)
                .parameters(&[name])
                .returns(Type::BOOL),
        )
        .method(
            Method::new("get", lookup::get)
                .parameters(&[name])
                .returns(tool.nullable()),
        )
        .method(Method::new("getAll", lookup::get_all).returns(Type::ARRAY))
        .method(Method::new("getMCPTools", offer::get_mcp_tools).returns(Type::ARRAY))
        .method(Method::new("count", lookup::count).returns(Type::INT))
        .method(Method::new("categories", lookup::categories).returns(Type::ARRAY))
        .method(
            Method::new("getSchemas", lookup::get_schemas)
                .parameters(&[Parameter::optional(
                    "category",
                    Type::STRING.nullable(),
                    "null",
                )])
                .returns(Type::ARRAY),
        );
    let class = class
        .method(
            Method::new("getAvailableForModel", offer::available_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getDroppedForModel", offer::dropped_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getDefinitionsForModel", offer::definitions_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getAvailableForProvider", offer::available_for_provider)
                .parameters(&[Parameter::required("providerClass", Type::STRING)])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("execute", execute)
                .parameters(&[
                    Parameter::required("toolName", Type::STRING),
                    Parameter::required("arguments", Type::ARRAY),
                    Parameter::required("toolCallId", Type::STRING),
                ])
                .returns(Type::class(tool_result::NAME)),
        );
    CLASS.register(class)
}

/// Returns the registry of an object, and the object.
pub fn registry_of(value: &Zval) -> Result<(Object<'_>, &Registry), Failure> {
    let object =
        Object::of(value).ok_or_else(|| Failure::error("The registry is not an object"))?;
    Ok((object, state_of(object)?))
}

/// Returns whether a value is a `ToolRegistry`.
pub fn is_registry(value: &Zval) -> bool {
    Object::of(value).is_some_and(|object| object.instance_of(CLASS.get()))
}

/// Returns the PHP object of the tool with this name; the caller must resolve aliases first.
pub fn find_tool(this: Object<'_>, name: &str) -> Result<Option<Zval>, Failure> {
    Ok(member(&objects(this)?, name))
}

fn objects(this: Object<'_>) -> Result<Zval, Failure> {
    this.get(CLASS.get(), "tools")
}

fn construct_empty(call: &mut MethodCall<'_>) -> Outcome {
    construct(call.this(), Registry::new())?;
    Ok(Zval::new())
}

fn registry_failure(error: &RegistryError) -> Failure {
    exception::invalid_input(error.to_string())
}

/// Runs one tool; the result for an unknown name has HAWKI's message.
fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let (name, id) = (call.string(0)?, call.string(2)?);
    call.array(1)?;
    let arguments = call.value(1).map_or(Ok(Value::Null), |value| {
        to_value_as("argument $arguments", value)
    })?;
    if !registry.tools.contains(name) {
        let mut result = ToolResult::failure(
            id,
            name,
            ErrorCode::NotFound,
            format!("Tool '{name}' is not registered"),
        );
        result.result = json!({"error": "Tool not found"});
        return tool_result::new_result(&result);
    }
    let calls = vec![ToolCall::new(id, name, arguments)];
    let context = CallContext::default();
    let participants = ExecutionParticipants {
        registry,
        object: this,
        hooks: None,
    };
    let results = execution::execute(
        &participants,
        &registry.executor,
        calls,
        context,
        Mode::Sequential,
    )?;
    match results.first() {
        Some(result) => tool_result::new_result(result),
        None => Err(Failure::error("The call has no result")),
    }
}
