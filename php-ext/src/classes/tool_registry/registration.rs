use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ext_php_rs::types::Zval;
use pillion_core::job_channel::PeerTool;
use pillion_core::registry::RegistryError;
use pillion_core::tool::{ApprovalPolicy, Tool, ToolDefinition, ToolName, ToolOrigin};
use pillion_schema::CompiledSchema;
use serde_json::value::RawValue;

use super::{registry_failure, services};
use crate::clients::mcp_sse_client;
use crate::clients::mcp_sse_client::any_client_of;
use crate::exception;
use crate::execution::PhpThread;
use crate::json::to_value;
use crate::mcp::{RequireApproval, Server, tool_list};
use crate::mcp_server::RegisteredMcpServer;
use crate::signature::{self, SignatureOverrides};
use crate::tools::registry::{CLASS, Registry, objects};
use crate::tools::{callable_tool, engine_tool, mcp_tool_adapter};
use crate::values::interfaces::{MCP_TOOL, TOOL};
use crate::values::tool_definition;
use crate::zend::{
    Failure, HiddenValue, MethodCall, Object, Outcome, bool_of, empty_array, escape_bytes, list_of,
    new_with_state, state_of, string_of, with_entries, with_entry, without_entry,
};

/// The number that the next registered PHP tool gets.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Creates a registry with the built-in tools and their aliases, and with the network tools that
/// have settings.
pub(super) fn with_builtins(call: &mut MethodCall<'_>) -> Outcome {
    let services = call
        .optional_array(0)?
        .map_or(Ok(Vec::new()), services::read)?;
    let value = new_with_state(Registry::new())?;
    let Some(this) = Object::from_value(&value) else {
        return Ok(value);
    };
    let registry = state_of::<Registry>(this)?;
    let mut tools = empty_array();
    for tool in pillion_builtins::all().into_iter().chain(services) {
        // A built-in tool with settings replaces the one without.
        let added = registry.tools.replace(tool);
        added.map_err(|error| registry_failure(&error))?;
    }
    pillion_builtins::set_aliases(&registry.tools).map_err(|error| registry_failure(&error))?;
    for tool in registry.tools.tools(None) {
        let object = engine_tool::new_native(&tool, &registry.executor)?;
        tools = with_entry(&tools, tool.name().as_str(), object);
    }
    this.set(CLASS.get(), "tools", tools);
    Ok(value)
}

/// Registers an object with `ToolInterface`, or a definition with a callable.
pub(super) fn register_tool(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let replace = call.bool_or(2, false)?;
    let argument = call.value(0);
    let object = match argument.filter(|value| tool_definition::is_definition(value)) {
        Some(definition) => {
            let handler = call.callable(1, "callable, with a ToolDefinition")?;
            callable_tool::new_tool(definition, handler)?
        }
        None => argument
            .filter(|value| {
                Object::from_value(value).is_some_and(|object| object.instance_of(TOOL.get()))
            })
            .map(Zval::shallow_clone)
            .ok_or_else(|| call.type_error(0, "Pillion\\ToolInterface|Pillion\\ToolDefinition"))?,
    };
    let Some(tool) = Object::from_value(&object) else {
        return Ok(Zval::new());
    };
    let definition = definition_of(tool)?;
    add_object(this, registry, &object, definition, replace)?;
    Ok(Zval::new())
}

/// Registers a tool given as a PHP object.
fn add_object(
    this: Object<'_>,
    registry: &Registry,
    object: &Zval,
    definition: ToolDefinition,
    replace: bool,
) -> Result<(), Failure> {
    let Some(tool) = Object::from_value(object) else {
        return Ok(());
    };
    let name = definition.name().as_str().to_owned();
    let native = engine_tool::engine_tool(tool)?;
    match native {
        // The object is a tool of another registry, which the engine runs in this registry, too.
        Some(native) => {
            add(registry, native, replace)?;
            let client = engine_tool::client(tool);
            let mut index = None;
            if client.is_object() {
                let mut clients = registry.clients(this)?;
                index = Some(clients.index_of_or_add(&client));
                HiddenValue::for_object::<Registry>(this)?.set(clients.to_value());
            }
            if let Some(server) = engine_tool::server_of(tool)? {
                registry.add_server(server, index);
            }
        }
        None => {
            let (origin, policy) = origin_of(tool, definition.name())?;
            let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
            let tool = PeerTool::<PhpThread>::new(definition, origin, policy, number);
            add(registry, Arc::new(tool), replace)?;
            registry.php_tools.borrow_mut().insert(name.clone(), number);
        }
    }
    let tools = with_entry(&objects(this)?, &name, object.shallow_clone());
    this.set(CLASS.get(), "tools", tools);
    Ok(())
}

/// Registers every tool with the attribute `AsTool` in an object or a class, and returns the names.
/// If one cannot be registered, none is.
pub(super) fn register_object(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let replace = call.bool_or(1, false)?;
    let argument = call
        .value(0)
        .filter(|value| value.is_object() || value.is_string())
        .ok_or_else(|| call.type_error(0, "object|string"))?;
    let mut tools: Vec<(Zval, ToolDefinition)> = Vec::new();
    for target in signature::find_attributed(argument)? {
        let signature = signature::read(&target, &SignatureOverrides::default())?;
        let name = signature.definition.name();
        let taken = tools.iter().any(|(_, known)| known.name() == name)
            || (!replace && has(registry, name));
        if taken {
            return Err(registry_failure(&RegistryError::AlreadyRegistered(
                name.clone(),
            )));
        }
        let definition = tool_definition::new_from_signature(&signature)?;
        let object = callable_tool::new_tool(&definition, &target.callable)?;
        tools.push((object, signature.definition));
    }
    // All schemas are checked before the first tool is registered, so that either all or none are
    // registered.
    for (_, definition) in &tools {
        check_schema(definition)?;
    }
    let mut names = Vec::with_capacity(tools.len());
    for (object, definition) in tools {
        names.push(string_of(definition.name().as_str()));
        add_object(this, registry, &object, definition, replace)?;
    }
    Ok(list_of(names))
}

/// Checks the schema of a definition as a registry does.
fn check_schema(definition: &ToolDefinition) -> Result<(), Failure> {
    CompiledSchema::check(definition.input_schema()).map_err(|source| {
        let name = definition.name().clone();
        registry_failure(&RegistryError::InvalidSchema { name, source })
    })
}

/// Returns whether a tool has this name; aliases do not count.
fn has(registry: &Registry, name: &ToolName) -> bool {
    let known = registry.tools.get(name.as_str());
    known.is_some_and(|known| known.name() == name)
}

/// Registers all tools of an MCP server, and returns their names. If a name is taken, returns an
/// error and registers none.
pub(super) fn register_mcp_server(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let replace = call.bool_or(2, false)?;
    let prefix = call.optional_string(1)?.unwrap_or_default();
    let ServerArgument {
        server,
        approval,
        client,
        listed,
    } = server_argument(call)?;
    let mut clients = registry.clients(this)?;
    let index = client.map(|client| clients.index_of_or_add(client));
    let parts = clients.get(index)?;
    let server = Rc::new(RegisteredMcpServer::new(server));
    let tools = server.tools(&listed, prefix, &approval, parts.map(|(_, hooks)| hooks))?;
    let taken = tools
        .iter()
        .find(|tool| has(registry, tool.definition().name()));
    if let (Some(tool), false) = (taken, replace) {
        let name = tool.definition().name().clone();
        return Err(registry_failure(&RegistryError::AlreadyRegistered(name)));
    }
    server.use_client(parts)?;
    let mut added = Vec::with_capacity(tools.len());
    let mut names = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = tool.definition().name().as_str().to_owned();
        add(registry, tool, true)?;
        if let Some(registered) = registry.tools.get(&name) {
            let object = engine_tool::new_mcp(&registered, &registry.executor, &server, client)?;
            added.push((name.clone(), object));
        }
        names.push(string_of(name));
    }
    this.set(CLASS.get(), "tools", with_entries(&objects(this)?, added));
    HiddenValue::for_object::<Registry>(this)?.set(clients.to_value());
    registry.add_server(server, index);
    Ok(list_of(names))
}

const CLIENTS: &str = "Pillion\\MCPSSEClient|Pillion\\McpClient|array";

/// The argument `$server`: a client or a server entry, with its tools.
struct ServerArgument<'a> {
    server: Arc<Server>,
    /// The approval setting of a server entry; a client has none.
    approval: RequireApproval,
    client: Option<&'a Zval>,
    /// The tools that the server lists.
    listed: Vec<Box<RawValue>>,
}

/// Reads a client, or an entry in HAWKI's format, and lists the tools of its server. Uses the
/// client's cache, and notifies its logger and event dispatcher.
fn server_argument<'a>(call: &MethodCall<'a>) -> Result<ServerArgument<'a>, Failure> {
    let value = call
        .value(0)
        .filter(|value| value.is_array() || value.is_object())
        .ok_or_else(|| call.type_error(0, CLIENTS))?;
    if let Some((link, hooks)) = any_client_of(value)? {
        return Ok(ServerArgument {
            listed: tool_list::list_raw(link, hooks)?,
            server: Arc::clone(link.server()),
            approval: RequireApproval::Unset,
            client: Some(value),
        });
    }
    if !value.is_array() {
        return Err(call.type_error(0, CLIENTS));
    }
    let entry = to_value(value)?;
    let approval = RequireApproval::from_entry(&entry)?;
    let server = Server::from_entry(&entry)?
        .ok_or_else(|| exception::invalid_input("The server entry has no 'server_url'"))?;
    Ok(ServerArgument {
        listed: mcp_sse_client::tools_of(&server)?,
        server,
        approval,
        client: None,
    })
}

fn add(registry: &Registry, tool: Arc<dyn Tool>, replace: bool) -> Result<(), Failure> {
    let name = tool.definition().name().clone();
    let added = if replace {
        registry.tools.replace(tool).map(drop)
    } else {
        registry.tools.register(tool)
    };
    added.map_err(|error| registry_failure(&error))?;
    registry.php_tools.borrow_mut().remove(name.as_str());
    Ok(())
}

fn definition_of(tool: Object<'_>) -> Result<ToolDefinition, Failure> {
    let definition = tool.call("getDefinition", [])?;
    let definition = tool_definition::definition_of(&definition)?
        .ok_or_else(|| exception::invalid_input("getDefinition() returned no ToolDefinition"))?;
    let name = tool.call("getName", [])?;
    if name.str() != Some(definition.name().as_str()) {
        let name = name.zend_str().map(|name| escape_bytes(name.as_bytes()));
        return Err(exception::invalid_input(format!(
            "Tool '{}' has a definition of the name '{}'",
            name.unwrap_or_default(),
            definition.name()
        )));
    }
    Ok(definition)
}

/// Returns the origin of a tool, and the approval policy of its server entry. All tools with
/// `MCPToolInterface` count as MCP tools.
fn origin_of(
    tool: Object<'_>,
    name: &ToolName,
) -> Result<(ToolOrigin, Option<ApprovalPolicy>), Failure> {
    if !tool.instance_of(MCP_TOOL.get()) {
        return Ok((ToolOrigin::Native, None));
    }
    let config = to_value(&tool.call("getMCPServerConfig", [])?)?;
    let approval = RequireApproval::from_entry(&config)?;
    Ok((
        mcp_tool_adapter::origin_of(&config),
        approval.policy_for_php_tool(name.as_str()),
    ))
}

pub(super) fn alias(call: &mut MethodCall<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    registry
        .tools
        .alias(call.string(0)?, call.string(1)?)
        .map_err(|error| registry_failure(&error))?;
    Ok(Zval::new())
}

pub(super) fn unregister(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let name = call.string(0)?;
    let was_there = registry.tools.unregister(name);
    if was_there {
        registry.php_tools.borrow_mut().remove(name);
        this.set(CLASS.get(), "tools", without_entry(&objects(this)?, name));
    }
    Ok(bool_of(was_there))
}
