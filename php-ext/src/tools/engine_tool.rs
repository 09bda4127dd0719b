//! `NativeTool` and `MCPServerTool`: the PHP classes of tools that the engine runs.

use std::rc::Rc;
use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::tool::{CallContext, Tool, ToolCall, ToolOrigin};

use crate::clients::mcp_sse_client::find_any_client;
use crate::json::to_value_as;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ServerLink, WaitingClient, require_approval};
use crate::mcp_server::RegisteredMcpServer;
use crate::model::model_argument;
use crate::values::interfaces::{EXECUTE_DECLARATION, MCP_TOOL, TOOL, add_offer_methods};
use crate::values::{tool_definition, tool_result};
use crate::wait::wait;
use crate::zend::{
    Class, Failure, HiddenValue, MethodCall, Object, Outcome, Result, State, StateClass, is_nested,
    methods, new_array, new_bool, new_string, new_with_state, read_state,
};

static NATIVE_CLASS: StateClass<EngineTool<NativeKind>> = StateClass::new();
static MCP_CLASS: StateClass<EngineTool<McpKind>> = StateClass::new();

/// A tool in an engine registry. `K` determines the PHP class of the tool: `NativeTool` or
/// `MCPServerTool`.
struct EngineTool<K> {
    tool: Arc<RegisteredTool>,
    executor: Executor,
    kind: K,
}

trait EngineToolKind: Sized + 'static {
    const CLASS: &'static StateClass<EngineTool<Self>>;

    /// Prepares the tool's server before the tool runs, with the link and hooks of the server's
    /// client.
    ///
    /// # Errors
    /// The same errors as [`RegisteredMcpServer::use_client`].
    fn use_client(&self, _client: Option<(&ServerLink, Hooks<'_>)>) -> Result<()> {
        Ok(())
    }
}

/// A tool built into Pillion.
struct NativeKind;
/// A tool of an MCP server.
struct McpKind(Rc<RegisteredMcpServer>);

impl EngineToolKind for NativeKind {
    const CLASS: &'static StateClass<EngineTool<Self>> = &NATIVE_CLASS;
}

impl EngineToolKind for McpKind {
    const CLASS: &'static StateClass<EngineTool<Self>> = &MCP_CLASS;

    fn use_client(&self, client: Option<(&ServerLink, Hooks<'_>)>) -> Result<()> {
        self.0.use_client(client)
    }
}

impl<K: EngineToolKind> State for EngineTool<K> {
    const CLASS: &'static StateClass<Self> = K::CLASS;
}

pub fn register() -> ZendResult<()> {
    let native_class = Class::new("Pillion\\NativeTool").implements(TOOL.get());
    NATIVE_CLASS.register(with_methods::<NativeKind>(native_class))?;
    let mcp_class = methods!(
        Class::new("Pillion\\MCPServerTool").implements(MCP_TOOL.get()),
        "getMCPServerConfig(): array" => get_mcp_server_config,
        "getMCPCategory(): string" => get_mcp_category,
        "isServerAvailable(): bool" => is_server_available,
    );
    MCP_CLASS.register(with_methods::<McpKind>(mcp_class))
}

/// Adds the methods that `NativeTool` and `MCPServerTool` share.
fn with_methods<K: EngineToolKind>(class: Class) -> Class {
    let final_class = methods!(
        class.flags(ClassFlags::Final),
        "private __construct()" => reject_construction,
        "getName(): string" => get_name::<K>,
        "getDefinition(): Pillion\\ToolDefinition" => get_definition::<K>,
        EXECUTE_DECLARATION => execute::<K>,
    );
    add_offer_methods(final_class, is_enabled_for_model::<K>)
}

/// Creates the `NativeTool` of a built-in tool.
pub fn new_native(tool: &Arc<RegisteredTool>, executor: &Executor) -> Outcome {
    new_with_state(EngineTool::new(tool, executor, NativeKind))
}

/// Creates the `MCPServerTool` of an MCP tool. The object's `HiddenValue` is the server's client,
/// whose callbacks handle requests from the server.
pub fn new_mcp(
    tool: &Arc<RegisteredTool>,
    executor: &Executor,
    server: &Rc<RegisteredMcpServer>,
    client: Option<&Zval>,
) -> Outcome {
    let kind = McpKind(Rc::clone(server));
    let value = new_with_state(EngineTool::new(tool, executor, kind))?;
    if let (Some(object), Some(client)) = (Object::from_value(&value), client) {
        HiddenValue::for_object::<EngineTool<McpKind>>(object)?.set(client.shallow_clone());
    }
    Ok(value)
}

/// Returns the client of an MCP tool's server; null if there is none.
pub fn find_client(object: Object<'_>) -> Zval {
    HiddenValue::for_object::<EngineTool<McpKind>>(object)
        .map_or_else(|_| Zval::new(), HiddenValue::get)
}

/// Returns the MCP server of a tool object; `None` for an object of another class.
pub fn find_server(object: Object<'_>) -> Result<Option<Rc<RegisteredMcpServer>>> {
    if !object.instance_of(MCP_CLASS.get()) {
        return Ok(None);
    }
    let server = &read_state::<EngineTool<McpKind>>(object)?.kind.0;
    Ok(Some(Rc::clone(server)))
}

impl<K> EngineTool<K> {
    fn new(tool: &Arc<RegisteredTool>, executor: &Executor, kind: K) -> Self {
        Self {
            tool: Arc::clone(tool),
            executor: executor.clone(),
            kind,
        }
    }

    /// Returns an executor whose registry contains this tool. If the tool's original registry now
    /// has another tool with the same name, such as a wrapper, creates a new registry.
    fn executor(&self) -> Result<Executor> {
        let name = self.tool.name().as_str();
        let registered_tool = self.executor.registry().get(name);
        if registered_tool.is_some_and(|tool| Arc::ptr_eq(&tool, &self.tool)) {
            return Ok(self.executor.clone());
        }
        let registry = ToolRegistry::new();
        registry
            .register(Arc::clone(self.tool.tool()))
            .map_err(|error| Failure::error(error.to_string()))?;
        Ok(Executor::new(Arc::new(registry), ExecutorConfig::default()))
    }
}

/// Returns the engine's tool of an object; `None` for an object of another class.
pub fn engine_tool(object: Object<'_>) -> Result<Option<Arc<dyn Tool>>> {
    let tool = if object.instance_of(NATIVE_CLASS.get()) {
        &read_state::<EngineTool<NativeKind>>(object)?.tool
    } else if object.instance_of(MCP_CLASS.get()) {
        &read_state::<EngineTool<McpKind>>(object)?.tool
    } else {
        return Ok(None);
    };
    Ok(Some(Arc::clone(tool.tool())))
}

fn reject_construction(_call: &mut MethodCall<'_>) -> Outcome {
    Err(Failure::error(
        "NativeTool and MCPServerTool cannot be created with new: a ToolRegistry creates them",
    ))
}

fn tool_state<'a, K: EngineToolKind>(call: &MethodCall<'a>) -> Result<&'a EngineTool<K>> {
    read_state(call.this())
}

fn get_name<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    Ok(new_string(tool_state::<K>(call)?.tool.name().as_str()))
}

fn get_definition<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    tool_definition::new_definition(tool_state::<K>(call)?.tool.definition())
}

/// Runs the tool with all checks that an executor makes.
fn execute<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = to_value_as("argument $arguments", call.array(0)?)?;
    let id = call.string(1)?;
    let state = tool_state::<K>(call)?;
    let tool_call = ToolCall::new(id, state.tool.name().as_str(), arguments);
    let mut executor = state.executor()?;
    if is_nested() {
        executor = executor.with_separate_permits();
    }
    let context = CallContext::default();
    let execution = async move { executor.execute_one(tool_call, &context).await };
    let client_value = HiddenValue::for_object::<EngineTool<K>>(call.this())?.get();
    let client = find_any_client(&client_value)?;
    state.kind.use_client(client)?;
    let result = match client {
        None => wait(execution)?,
        Some((link, hooks)) => {
            let waiting_client = WaitingClient::new(link, hooks)?;
            let result = waiting_client.wait(|_| execution)?;
            waiting_client.finish()?;
            result
        }
    };
    tool_result::new_result(&result)
}

fn is_enabled_for_model<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    let capabilities = model_argument(call, 0)?;
    let tool = &tool_state::<K>(call)?.tool;
    let admission = capabilities.admit(tool.name().as_str(), tool.origin());
    Ok(new_bool(admission.is_ok()))
}

fn server_label_and_url<'a>(call: &MethodCall<'a>) -> Result<(&'a str, &'a str)> {
    Ok(match tool_state::<McpKind>(call)?.tool.origin() {
        ToolOrigin::Mcp {
            server_label,
            server_url,
        } => (server_label, server_url),
        _ => ("", ""),
    })
}

/// Returns the server's entry without credentials, with the approval policy for this tool.
fn get_mcp_server_config(call: &mut MethodCall<'_>) -> Outcome {
    let (label, url) = server_label_and_url(call)?;
    let policy = tool_state::<McpKind>(call)?.tool.tool().approval_policy();
    let approval_entry = policy
        .map(require_approval::policy_name)
        .map(|name| ("require_approval", new_string(name)));
    let entries = [
        ("type", new_string("mcp")),
        ("server_label", new_string(label)),
        ("server_url", new_string(url)),
    ];
    Ok(new_array(entries.into_iter().chain(approval_entry)))
}

fn get_mcp_category(call: &mut MethodCall<'_>) -> Outcome {
    let tool = &tool_state::<McpKind>(call)?.tool;
    Ok(new_string(tool.definition().category()))
}

/// Returns whether the tool has a server, without any I/O. `MCPSSEClient::isAvailable()` contacts
/// the server.
fn is_server_available(call: &mut MethodCall<'_>) -> Outcome {
    let (_, url) = server_label_and_url(call)?;
    Ok(new_bool(!url.trim().is_empty()))
}
