//! `NativeTool` and `MCPServerTool`: the PHP classes of tools that the engine runs.

use std::rc::Rc;
use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::tool::{CallContext, Tool, ToolCall, ToolOrigin};

use crate::clients::mcp_sse_client::any_client_of;
use crate::json::to_value_as;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ServerLink, WaitingClient, require_approval};
use crate::mcp_server::RegisteredMcpServer;
use crate::model::model_argument;
use crate::values::interfaces::{EXECUTE, MCP_TOOL, TOOL, with_offer};
use crate::values::{tool_definition, tool_result};
use crate::wait::wait;
use crate::zend::{
    Class, Failure, HiddenValue, MethodCall, Object, Outcome, State, StateClass, array_of, bool_of,
    is_nested, methods, new_with_state, state_of, string_of,
};

static NATIVE: StateClass<EngineTool<Native>> = StateClass::new();
static MCP: StateClass<EngineTool<Mcp>> = StateClass::new();

/// A tool in an engine registry. `K` distinguishes the two PHP classes.
struct EngineTool<K> {
    tool: Arc<RegisteredTool>,
    executor: Executor,
    kind: K,
}

trait EngineToolKind: Sized + 'static {
    fn class() -> &'static StateClass<EngineTool<Self>>;

    /// Prepares the tool's server before the tool runs, with the link and hooks of the server's
    /// client.
    ///
    /// # Errors
    /// The failures of [`RegisteredMcpServer::use_client`].
    fn use_client(&self, _client: Option<(&ServerLink, Hooks<'_>)>) -> Result<(), Failure> {
        Ok(())
    }
}

/// A tool built into Pillion.
struct Native;
/// A tool of an MCP server.
struct Mcp(Rc<RegisteredMcpServer>);

impl EngineToolKind for Native {
    fn class() -> &'static StateClass<EngineTool<Self>> {
        &NATIVE
    }
}

impl EngineToolKind for Mcp {
    fn class() -> &'static StateClass<EngineTool<Self>> {
        &MCP
    }

    fn use_client(&self, client: Option<(&ServerLink, Hooks<'_>)>) -> Result<(), Failure> {
        self.0.use_client(client)
    }
}

impl<K: EngineToolKind> State for EngineTool<K> {
    fn class() -> &'static StateClass<Self> {
        K::class()
    }
}

pub fn register() -> ZendResult<()> {
    let native = Class::new("Pillion\\NativeTool").implements(TOOL.get());
    NATIVE.register(with_methods::<Native>(native))?;
    let mcp = methods!(
        Class::new("Pillion\\MCPServerTool").implements(MCP_TOOL.get()),
        "getMCPServerConfig(): array" => get_mcp_server_config,
        "getMCPCategory(): string" => get_mcp_category,
        "isServerAvailable(): bool" => is_server_available,
    );
    MCP.register(with_methods::<Mcp>(mcp))
}

/// Adds the methods that `NativeTool` and `MCPServerTool` share.
fn with_methods<K: EngineToolKind>(class: Class) -> Class {
    let class = methods!(
        class.flags(ClassFlags::Final),
        "private __construct()" => no_constructor,
        "getName(): string" => get_name::<K>,
        "getDefinition(): Pillion\\ToolDefinition" => get_definition::<K>,
        EXECUTE => execute::<K>,
    );
    with_offer(class, is_enabled_for_model::<K>)
}

/// Creates the `NativeTool` of a built-in tool.
pub fn new_native(tool: &Arc<RegisteredTool>, executor: &Executor) -> Outcome {
    new_with_state(EngineTool::new(tool, executor, Native))
}

/// Creates the `MCPServerTool` of an MCP tool. The hidden value is the server's client, whose
/// callbacks handle requests from the server.
pub fn new_mcp(
    tool: &Arc<RegisteredTool>,
    executor: &Executor,
    server: &Rc<RegisteredMcpServer>,
    client: Option<&Zval>,
) -> Outcome {
    let kind = Mcp(Rc::clone(server));
    let value = new_with_state(EngineTool::new(tool, executor, kind))?;
    if let (Some(object), Some(client)) = (Object::from_value(&value), client) {
        HiddenValue::for_object::<EngineTool<Mcp>>(object)?.set(client.shallow_clone());
    }
    Ok(value)
}

/// Returns the client of an MCP tool's server; null if there is none.
pub fn client(object: Object<'_>) -> Zval {
    HiddenValue::for_object::<EngineTool<Mcp>>(object)
        .map_or_else(|_| Zval::new(), HiddenValue::get)
}

/// Returns the MCP server of a tool object; `None` for an object of another class.
pub fn server_of(object: Object<'_>) -> Result<Option<Rc<RegisteredMcpServer>>, Failure> {
    if !object.instance_of(MCP.get()) {
        return Ok(None);
    }
    let server = &state_of::<EngineTool<Mcp>>(object)?.kind.0;
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

    /// Returns an executor whose registry contains this tool. The registry that the tool comes from
    /// may by now have another tool with the same name, such as a wrapper.
    fn executor(&self) -> Result<Executor, Failure> {
        let name = self.tool.name().as_str();
        let found = self.executor.registry().get(name);
        if found.is_some_and(|found| Arc::ptr_eq(&found, &self.tool)) {
            return Ok(self.executor.clone());
        }
        let alone = ToolRegistry::new();
        alone
            .register(Arc::clone(self.tool.tool()))
            .map_err(|error| Failure::error(error.to_string()))?;
        Ok(Executor::new(Arc::new(alone), ExecutorConfig::default()))
    }
}

/// Returns the engine's tool of an object; `None` for an object of another class.
pub fn engine_tool(object: Object<'_>) -> Result<Option<Arc<dyn Tool>>, Failure> {
    let tool = if object.instance_of(NATIVE.get()) {
        &state_of::<EngineTool<Native>>(object)?.tool
    } else if object.instance_of(MCP.get()) {
        &state_of::<EngineTool<Mcp>>(object)?.tool
    } else {
        return Ok(None);
    };
    Ok(Some(Arc::clone(tool.tool())))
}

fn no_constructor(_call: &mut MethodCall<'_>) -> Outcome {
    Err(Failure::error(
        "A tool of the engine is created by a registry",
    ))
}

fn this<'a, K: EngineToolKind>(call: &MethodCall<'a>) -> Result<&'a EngineTool<K>, Failure> {
    state_of(call.this())
}

fn get_name<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    Ok(string_of(this::<K>(call)?.tool.name().as_str()))
}

fn get_definition<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    tool_definition::new_definition(this::<K>(call)?.tool.definition())
}

/// Runs the tool with all checks that an executor makes.
fn execute<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = to_value_as("argument $arguments", call.array(0)?)?;
    let id = call.string(1)?;
    let state = this::<K>(call)?;
    let tool_call = ToolCall::new(id, state.tool.name().as_str(), arguments);
    let mut executor = state.executor()?;
    if is_nested() {
        executor = executor.with_separate_permits();
    }
    let run = async move {
        executor
            .execute_one(tool_call, &CallContext::default())
            .await
    };
    let client = HiddenValue::for_object::<EngineTool<K>>(call.this())?.get();
    let client = any_client_of(&client)?;
    state.kind.use_client(client)?;
    let result = match client {
        None => wait(run)?,
        Some((link, hooks)) => {
            let waiting_client = WaitingClient::new(link, hooks)?;
            let result = waiting_client.wait(|_| run)?;
            waiting_client.finish()?;
            result
        }
    };
    tool_result::new_result(&result)
}

fn is_enabled_for_model<K: EngineToolKind>(call: &mut MethodCall<'_>) -> Outcome {
    let capabilities = model_argument(call, 0)?;
    let tool = &this::<K>(call)?.tool;
    let admitted = capabilities.admit(tool.name().as_str(), tool.origin());
    Ok(bool_of(admitted.is_ok()))
}

fn server<'a>(call: &MethodCall<'a>) -> Result<(&'a str, &'a str), Failure> {
    Ok(match this::<Mcp>(call)?.tool.origin() {
        ToolOrigin::Mcp {
            server_label,
            server_url,
        } => (server_label, server_url),
        _ => ("", ""),
    })
}

/// Returns the server's entry without credentials, with the approval policy for this tool.
fn get_mcp_server_config(call: &mut MethodCall<'_>) -> Outcome {
    let (label, url) = server(call)?;
    let policy = this::<Mcp>(call)?.tool.tool().approval_policy();
    let approval = policy.map(|policy| {
        (
            "require_approval",
            string_of(require_approval::policy_name(policy)),
        )
    });
    Ok(array_of(
        [
            ("type", string_of("mcp")),
            ("server_label", string_of(label)),
            ("server_url", string_of(url)),
        ]
        .into_iter()
        .chain(approval),
    ))
}

fn get_mcp_category(call: &mut MethodCall<'_>) -> Outcome {
    let tool = &this::<Mcp>(call)?.tool;
    Ok(string_of(tool.definition().category()))
}

/// Returns whether the tool has a server, without any I/O. `MCPSSEClient::isAvailable()` contacts
/// the server.
fn is_server_available(call: &mut MethodCall<'_>) -> Outcome {
    let (_, url) = server(call)?;
    Ok(bool_of(!url.trim().is_empty()))
}
