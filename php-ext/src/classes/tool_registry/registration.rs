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
use crate::clients::mcp_sse_client::find_any_client;
use crate::exception;
use crate::execution::PhpThread;
use crate::json::to_value;
use crate::mcp::{RequireApproval, Server, tool_list};
use crate::mcp_server::RegisteredMcpServer;
use crate::signature::{self, SignatureOverrides};
use crate::tools::registry::{CLASS, Registry, tool_objects};
use crate::tools::{callable_tool, engine_tool, mcp_tool_adapter};
use crate::values::interfaces::{MCP_TOOL, TOOL};
use crate::values::tool_definition;
use crate::zend::{
    HiddenValue, MethodCall, Object, Outcome, Result, empty_array, escape_bytes, new_bool,
    new_list, new_string, new_with_state, read_state, with_entries, with_entry, without_entry,
};

/// The registration number of the next PHP tool that is registered in this process.
static NEXT_TOOL_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Creates a registry with the built-in tools and their aliases, and with the network tools that
/// the `$services` array configures.
pub(super) fn with_builtins(call: &mut MethodCall<'_>) -> Outcome {
    let service_tools = call
        .optional_array(0)?
        .map_or(Ok(Vec::new()), services::create_service_tools)?;
    let registry_value = new_with_state(Registry::new())?;
    let Some(this) = Object::from_value(&registry_value) else {
        return Ok(registry_value);
    };
    let registry = read_state::<Registry>(this)?;
    let mut tools = empty_array();
    for tool in pillion_builtins::all().into_iter().chain(service_tools) {
        // A tool from `$services` replaces the built-in tool of the same name, which has no
        // settings.
        (registry.tools.replace(tool)).map_err(|error| registry_failure(&error))?;
    }
    pillion_builtins::set_aliases(&registry.tools).map_err(|error| registry_failure(&error))?;
    for tool in registry.tools.tools(None) {
        let object = engine_tool::new_native(&tool, &registry.executor)?;
        tools = with_entry(&tools, tool.name().as_str(), object);
    }
    this.set(CLASS.get(), "tools", tools);
    Ok(registry_value)
}

/// Registers an object with `ToolInterface`, or a definition with a callable.
pub(super) fn register_tool(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = read_state::<Registry>(this)?;
    let replace = call.bool_or(2, false)?;
    let argument = call.value(0);
    let object = match argument.filter(|value| tool_definition::is_definition(value)) {
        Some(definition) => {
            let handler = call.callable(1, "callable for a ToolDefinition")?;
            callable_tool::new_tool(definition, handler)?
        }
        None => argument
            .filter(|value| Object::from_instance(value, TOOL.get()).is_some())
            .map(Zval::shallow_clone)
            .ok_or_else(|| call.type_error(0, "Pillion\\ToolInterface|Pillion\\ToolDefinition"))?,
    };
    let Some(tool) = Object::from_value(&object) else {
        return Ok(Zval::new());
    };
    let definition = read_definition(tool)?;
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
) -> Result<()> {
    let Some(tool) = Object::from_value(object) else {
        return Ok(());
    };
    let name = definition.name().as_str().to_owned();
    match engine_tool::engine_tool(tool)? {
        // The object is a tool of another registry. The engine can run the tool in this registry as
        // well.
        Some(native_tool) => {
            add_tool(registry, native_tool, replace)?;
            let client = engine_tool::find_client(tool);
            let mut client_index = None;
            if client.is_object() {
                let mut clients = registry.clients(this)?;
                client_index = Some(clients.find_or_add(&client));
                HiddenValue::for_object::<Registry>(this)?.set(clients.to_value());
            }
            if let Some(server) = engine_tool::find_server(tool)? {
                registry.add_server(server, client_index);
            }
        }
        None => {
            let (origin, policy) = read_origin(tool, definition.name())?;
            let tool_number = NEXT_TOOL_NUMBER.fetch_add(1, Ordering::Relaxed);
            let tool = PeerTool::<PhpThread>::new(definition, origin, policy, tool_number);
            add_tool(registry, Arc::new(tool), replace)?;
            registry
                .php_tool_numbers
                .borrow_mut()
                .insert(name.clone(), tool_number);
        }
    }
    let tools = with_entry(&tool_objects(this)?, &name, object.shallow_clone());
    this.set(CLASS.get(), "tools", tools);
    Ok(())
}

/// Registers every tool with the attribute `AsTool` in an object or a class, and returns the names.
/// If a tool cannot be registered, registers none of the tools.
pub(super) fn register_object(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = read_state::<Registry>(this)?;
    let replace = call.bool_or(1, false)?;
    let argument = call
        .value(0)
        .filter(|value| value.is_object() || value.is_string())
        .ok_or_else(|| call.type_error(0, "object|string"))?;
    let mut tools: Vec<(Zval, ToolDefinition)> = Vec::new();
    for target in signature::find_attributed(argument)? {
        let signature = signature::read_signature(&target, &SignatureOverrides::default())?;
        let name = signature.definition.name();
        let is_taken = tools.iter().any(|(_, other)| other.name() == name)
            || (!replace && has_tool(registry, name));
        if is_taken {
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
        names.push(new_string(definition.name().as_str()));
        add_object(this, registry, &object, definition, replace)?;
    }
    Ok(new_list(names))
}

/// Validates the JSON Schema of a tool definition by the same rules as when the registry registers
/// a tool.
fn check_schema(definition: &ToolDefinition) -> Result<()> {
    CompiledSchema::check(definition.input_schema()).map_err(|source| {
        let name = definition.name().clone();
        registry_failure(&RegistryError::InvalidSchema { name, source })
    })
}

/// Returns whether a tool has this name; aliases do not count.
fn has_tool(registry: &Registry, name: &ToolName) -> bool {
    let tool = registry.tools.get(name.as_str());
    tool.is_some_and(|tool| tool.name() == name)
}

/// Registers all tools of an MCP server, and returns their names. If a name is taken, returns an
/// error and registers none of the tools.
pub(super) fn register_mcp_server(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = read_state::<Registry>(this)?;
    let replace = call.bool_or(2, false)?;
    let prefix = call.optional_string(1)?.unwrap_or_default();
    let ServerArgument {
        server,
        approval,
        client,
        listed_tools,
    } = server_argument(call)?;
    let mut clients = registry.clients(this)?;
    let client_index = client.map(|client| clients.find_or_add(client));
    let client_parts = clients.get(client_index)?;
    let server = Rc::new(RegisteredMcpServer::new(server));
    let hooks = client_parts.map(|(_, hooks)| hooks);
    let tools = server.create_tools(&listed_tools, prefix, &approval, hooks)?;
    let existing_tool = tools
        .iter()
        .find(|tool| has_tool(registry, tool.definition().name()));
    if let (Some(tool), false) = (existing_tool, replace) {
        let name = tool.definition().name().clone();
        return Err(registry_failure(&RegistryError::AlreadyRegistered(name)));
    }
    server.use_client(client_parts)?;
    let mut added_objects = Vec::with_capacity(tools.len());
    let mut names = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = tool.definition().name().as_str().to_owned();
        add_tool(registry, tool, true)?;
        if let Some(registered) = registry.tools.get(&name) {
            let object = engine_tool::new_mcp(&registered, &registry.executor, &server, client)?;
            added_objects.push((name.clone(), object));
        }
        names.push(new_string(name));
    }
    let tool_entries = with_entries(&tool_objects(this)?, added_objects);
    this.set(CLASS.get(), "tools", tool_entries);
    HiddenValue::for_object::<Registry>(this)?.set(clients.to_value());
    registry.add_server(server, client_index);
    Ok(new_list(names))
}

const SERVER_TYPE: &str = "Pillion\\MCPSSEClient|Pillion\\McpClient|array";

/// The client or server entry that was passed as the argument `$server`, and the server's tools.
struct ServerArgument<'a> {
    server: Arc<Server>,
    /// The `require_approval` setting of a server entry. A client has no such setting.
    approval: RequireApproval,
    client: Option<&'a Zval>,
    /// The tools that the server lists.
    listed_tools: Vec<Box<RawValue>>,
}

/// Reads a client, or a server entry in HAWKI's format, and lists the server's tools. Uses the
/// cache, the logger and the event dispatcher of the client.
fn server_argument<'a>(call: &MethodCall<'a>) -> Result<ServerArgument<'a>> {
    let value = call
        .value(0)
        .filter(|value| value.is_array() || value.is_object())
        .ok_or_else(|| call.type_error(0, SERVER_TYPE))?;
    if let Some((link, hooks)) = find_any_client(value)? {
        return Ok(ServerArgument {
            listed_tools: tool_list::list_raw(link, hooks)?,
            server: Arc::clone(link.server()),
            approval: RequireApproval::Unset,
            client: Some(value),
        });
    }
    if !value.is_array() {
        return Err(call.type_error(0, SERVER_TYPE));
    }
    let entry = to_value(value)?;
    let approval = RequireApproval::from_entry(&entry)?;
    let server = Server::from_entry(&entry)?
        .ok_or_else(|| exception::invalid_input("The server entry has no 'server_url'"))?;
    Ok(ServerArgument {
        listed_tools: mcp_sse_client::fetch_tools(&server)?,
        server,
        approval,
        client: None,
    })
}

fn add_tool(registry: &Registry, tool: Arc<dyn Tool>, replace: bool) -> Result<()> {
    let name = tool.definition().name().clone();
    let outcome = if replace {
        registry.tools.replace(tool).map(drop)
    } else {
        registry.tools.register(tool)
    };
    outcome.map_err(|error| registry_failure(&error))?;
    registry.php_tool_numbers.borrow_mut().remove(name.as_str());
    Ok(())
}

fn read_definition(tool: Object<'_>) -> Result<ToolDefinition> {
    let definition_value = tool.call("getDefinition", [])?;
    let definition = tool_definition::to_tool_definition(&definition_value)?.ok_or_else(|| {
        exception::invalid_input(format!(
            "{}::getDefinition() returned no ToolDefinition",
            tool.class_name()
        ))
    })?;
    let name_value = tool.call("getName", [])?;
    if name_value.str() != Some(definition.name().as_str()) {
        let name = name_value
            .zend_str()
            .map(|name| escape_bytes(name.as_bytes()));
        return Err(exception::invalid_input(format!(
            "Tool '{}' must have a definition with the same name, not '{}'",
            name.unwrap_or_default(),
            definition.name()
        )));
    }
    Ok(definition)
}

/// Returns the origin of a tool, and the approval policy of its server entry. All tools that
/// implement `MCPToolInterface` count as MCP tools.
fn read_origin(tool: Object<'_>, name: &ToolName) -> Result<(ToolOrigin, Option<ApprovalPolicy>)> {
    if !tool.instance_of(MCP_TOOL.get()) {
        return Ok((ToolOrigin::Native, None));
    }
    let config = to_value(&tool.call("getMCPServerConfig", [])?)?;
    let approval = RequireApproval::from_entry(&config)?;
    Ok((
        mcp_tool_adapter::read_entry_origin(&config),
        approval.policy_for_php_tool(name.as_str()),
    ))
}

pub(super) fn alias(call: &mut MethodCall<'_>) -> Outcome {
    let registry = read_state::<Registry>(call.this())?;
    registry
        .tools
        .set_alias(call.string(0)?, call.string(1)?)
        .map_err(|error| registry_failure(&error))?;
    Ok(Zval::new())
}

pub(super) fn unregister(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = read_state::<Registry>(this)?;
    let name = call.string(0)?;
    let was_registered = registry.tools.unregister(name);
    if was_registered {
        registry.php_tool_numbers.borrow_mut().remove(name);
        let tools = without_entry(&tool_objects(this)?, name);
        this.set(CLASS.get(), "tools", tools);
    }
    Ok(new_bool(was_registered))
}
