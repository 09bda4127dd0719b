//! `NativeTool` and `MCPServerTool`: tools whose work is done by the engine, as PHP sees
//! them.

use std::marker::PhantomData;
use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::tool::{CallContext, Tool, ToolCall, ToolOrigin};

use super::client_hooks::client_of;
use super::interfaces::{EXECUTE, MCP_TOOL, TOOL, with_offer};
use super::{tool_definition, tool_result};
use crate::json::to_value_as;
use crate::mcp::{Attendant, require_approval};
use crate::model::model_argument;
use crate::wait::wait;
use crate::zend::{
    Call, Class, Failure, Hidden, Method, Object, Outcome, State, StateClass, Type, array_of,
    bool_of, new_with_state, state_of, string_of,
};

static NATIVE: StateClass<EngineTool<Native>> = StateClass::new();
static MCP: StateClass<EngineTool<Mcp>> = StateClass::new();

/// A tool in a registry of the engine. `Kind` tells the two PHP classes apart.
struct EngineTool<Kind> {
    tool: Arc<RegisteredTool>,
    executor: Executor,
    kind: PhantomData<Kind>,
}

/// Built into Pillion.
struct Native;
/// Offered by an MCP server.
struct Mcp;

impl State for EngineTool<Native> {
    fn class() -> &'static StateClass<Self> {
        &NATIVE
    }
}

impl State for EngineTool<Mcp> {
    fn class() -> &'static StateClass<Self> {
        &MCP
    }
}

pub(super) fn register() -> ZendResult<()> {
    let native = Class::new("Pillion\\NativeTool").implements(TOOL.get());
    NATIVE.register(with_methods::<Native>(native))?;
    let mcp = Class::new("Pillion\\MCPServerTool")
        .implements(MCP_TOOL.get())
        .method(Method::new("getMCPServerConfig", get_mcp_server_config).returns(Type::ARRAY))
        .method(Method::new("getMCPCategory", get_mcp_category).returns(Type::STRING))
        .method(Method::new("isServerAvailable", is_server_available).returns(Type::BOOL));
    MCP.register(with_methods::<Mcp>(mcp))
}

/// What both classes have.
fn with_methods<Kind: 'static>(class: Class) -> Class
where
    EngineTool<Kind>: State,
{
    let class = class
        .flags(ClassFlags::Final)
        .method(Method::new("__construct", refuse).make_private())
        .method(Method::new("getName", get_name::<Kind>).returns(Type::STRING))
        .method(
            Method::new("getDefinition", get_definition::<Kind>)
                .returns(Type::class(tool_definition::NAME)),
        )
        .method(
            Method::new("execute", execute::<Kind>)
                .parameters(&EXECUTE)
                .returns(Type::class(tool_result::NAME)),
        );
    with_offer(class, is_enabled_for_model::<Kind>)
}

/// A tool that is built in, as an object.
pub fn new_native(tool: &Arc<RegisteredTool>, executor: &Executor) -> Outcome {
    new_with_state(EngineTool::<Native>::new(tool, executor))
}

/// A tool of an MCP server as an object, which holds the client of the server as its hidden
/// value: its callbacks answer what the server asks.
pub fn new_mcp(tool: &Arc<RegisteredTool>, executor: &Executor, client: Option<&Zval>) -> Outcome {
    let value = new_with_state(EngineTool::<Mcp>::new(tool, executor))?;
    if let (Some(object), Some(client)) = (Object::of(&value), client) {
        Hidden::of::<EngineTool<Mcp>>(object)?.set(client.shallow_clone());
    }
    Ok(value)
}

/// The client of the MCP server whose tool an object is; null where there is none.
pub fn client(object: Object<'_>) -> Zval {
    Hidden::of::<EngineTool<Mcp>>(object).map_or_else(|_| Zval::new(), Hidden::get)
}

impl<Kind> EngineTool<Kind> {
    fn new(tool: &Arc<RegisteredTool>, executor: &Executor) -> Self {
        Self {
            tool: Arc::clone(tool),
            executor: executor.clone(),
            kind: PhantomData,
        }
    }

    /// An executor that finds this very tool: its registry may have another under the name by
    /// now, such as one that wraps it.
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

/// The engine's tool behind an object; `None` when the object is of another class.
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

fn refuse(_call: &mut Call<'_>) -> Outcome {
    Err(Failure::error("A tool of the engine comes from a registry"))
}

fn this<'a, Kind: 'static>(call: &Call<'a>) -> Result<&'a EngineTool<Kind>, Failure>
where
    EngineTool<Kind>: State,
{
    state_of(call.this())
}

fn get_name<Kind: 'static>(call: &mut Call<'_>) -> Outcome
where
    EngineTool<Kind>: State,
{
    Ok(string_of(this::<Kind>(call)?.tool.name().as_str()))
}

fn get_definition<Kind: 'static>(call: &mut Call<'_>) -> Outcome
where
    EngineTool<Kind>: State,
{
    tool_definition::new_definition(this::<Kind>(call)?.tool.definition())
}

/// Runs the tool with all the checks of an executor.
fn execute<Kind: 'static>(call: &mut Call<'_>) -> Outcome
where
    EngineTool<Kind>: State,
{
    call.array(0)?;
    let arguments = call.value(0).map_or(Ok(serde_json::Value::Null), |given| {
        to_value_as("argument $arguments", given)
    })?;
    let id = call.string(1)?;
    let state = this::<Kind>(call)?;
    let tool_call = ToolCall::new(id, state.tool.name().as_str(), arguments);
    let executor = state.executor()?;
    let run = async move {
        executor
            .execute_one(tool_call, &CallContext::default())
            .await
    };
    let client = Hidden::of::<EngineTool<Kind>>(call.this())?.get();
    let result = match client_of(&client)? {
        None => wait(run)?,
        Some((link, hooks)) => {
            let attendant = Attendant::new(link, hooks)?;
            let result = attendant.wait(|_| run)?;
            attendant.settle()?;
            result
        }
    };
    tool_result::new_result(&result)
}

fn is_enabled_for_model<Kind: 'static>(call: &mut Call<'_>) -> Outcome
where
    EngineTool<Kind>: State,
{
    let capabilities = model_argument(call, 0)?;
    let tool = &this::<Kind>(call)?.tool;
    let admitted = capabilities.admit(tool.name().as_str(), tool.origin());
    Ok(bool_of(admitted.is_ok()))
}

fn server<'a>(call: &Call<'a>) -> Result<(&'a str, &'a str), Failure> {
    Ok(match this::<Mcp>(call)?.tool.origin() {
        ToolOrigin::Mcp {
            server_label,
            server_url,
        } => (server_label, server_url),
        _ => ("", ""),
    })
}

/// What may be shown of the server: no credentials. Of approvals what holds for this tool.
fn get_mcp_server_config(call: &mut Call<'_>) -> Outcome {
    let (label, url) = server(call)?;
    let policy = this::<Mcp>(call)?.tool.tool().approval_policy();
    let approval = policy.map(|policy| {
        (
            "require_approval",
            string_of(require_approval::word(policy)),
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

fn get_mcp_category(call: &mut Call<'_>) -> Outcome {
    let tool = &this::<Mcp>(call)?.tool;
    Ok(string_of(tool.definition().category()))
}

/// Whether a server is set. There is no I/O here: `MCPSSEClient::isAvailable()` asks it.
fn is_server_available(call: &mut Call<'_>) -> Outcome {
    let (_, url) = server(call)?;
    Ok(bool_of(!url.trim().is_empty()))
}
