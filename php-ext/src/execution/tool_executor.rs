//! `ToolExecutor`: runs tool calls.

mod options;

use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::executor::Executor;
use pillion_core::job_channel;
use pillion_core::tool::{ToolCall, ToolResult};

use super::{ExecutionMode, ExecutionParticipants, PhpThread};
use crate::clients::client_hooks;
use crate::context::context_argument;
use crate::mcp::hooks::{self, Hooks};
use crate::tools::registry::{self, is_registry, read_registry};
use crate::values::tool_call::to_tool_call;
use crate::values::tool_result::{new_first_result, new_result};
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, Result, State, StateClass, construct, entries,
    methods, read_state, try_new_list,
};

const NAME: &str = "Pillion\\ToolExecutor";
static CLASS: StateClass<ToolExecutor> = StateClass::new();

struct ToolExecutor {
    executor: Executor,
}

impl State for ToolExecutor {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

pub fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new(NAME).property("private Pillion\\ToolRegistry $registry"),
        "__construct(Pillion\\ToolRegistry $registry, array $options = [])" => construct_executor,
        "execute(Pillion\\ToolCall|array $call, \
         array $context = []): Pillion\\ToolResult" => execute,
        "executeAll(array $calls, array $context = []): array" => execute_all,
        "executeParallel(array $calls, array $context = []): array" => execute_parallel,
    );
    CLASS.register(client_hooks::add_observer_methods::<ToolExecutor>(class))
}

fn construct_executor(call: &mut MethodCall<'_>) -> Outcome {
    let registry_argument = call
        .value(0)
        .filter(|value| is_registry(value))
        .ok_or_else(|| call.type_error(0, registry::NAME))?;
    let (_, registry) = read_registry(registry_argument)?;
    let options::ParsedOptions {
        config,
        approve_callable,
        before_callable,
    } = match call.optional_array(1)? {
        Some(array) => options::read_options(array)?,
        None => options::ParsedOptions::default(),
    };
    let this = call.this();
    let tools = Arc::clone(&registry.tools);
    let hooks = job_channel::hooks::<PhpThread>();
    let executor = Executor::with_hooks(tools, config, hooks);
    construct(this, ToolExecutor { executor })?;
    this.set(CLASS.get(), "registry", registry_argument.shallow_clone());
    let executor_hooks = read_hooks(this)?;
    for (name, callable) in [
        (hooks::APPROVE_CALLABLE, &approve_callable),
        (hooks::BEFORE_CALLABLE, &before_callable),
    ] {
        if !callable.is_null() {
            executor_hooks.set(name, Some(callable));
        }
    }
    Ok(Zval::new())
}

/// Returns the hooks of an executor.
pub fn read_hooks(executor: Object<'_>) -> Result<Hooks<'_>> {
    Hooks::for_object::<ToolExecutor>(executor)
}

/// Returns whether an object is a `ToolExecutor`.
pub fn is_executor(object: Object<'_>) -> bool {
    object.instance_of(CLASS.get())
}

/// Returns whether an executor's class is a subclass that the application has written. The methods
/// of such a subclass must be called, because they may override the methods of `ToolExecutor`.
pub fn is_extended(executor: Object<'_>) -> bool {
    !std::ptr::eq(executor.class(), CLASS.get())
}

/// Returns the engine's executor of a `ToolExecutor`.
///
/// # Errors
/// An `Error` if the object's constructor has not run.
pub fn read_executor(executor: Object<'_>) -> Result<&Executor> {
    Ok(&read_state::<ToolExecutor>(executor)?.executor)
}

/// Returns the registry of an executor.
///
/// # Errors
/// An `Error` if the object's constructor has not run.
pub fn registry_value(executor: Object<'_>) -> Outcome {
    read_state::<ToolExecutor>(executor)?;
    executor.get(CLASS.get(), "registry")
}

/// Returns the PHP objects that take part in an executor's calls: the registry in `registry_value`,
/// and the hooks of the executor.
///
/// # Errors
/// An `Error` if the registry's constructor has not run.
pub fn read_participants<'a>(
    executor: Object<'a>,
    registry_value: &'a Zval,
) -> Result<ExecutionParticipants<'a>> {
    let (registry_object, registry) = read_registry(registry_value)?;
    let hooks = Some(read_hooks(executor)?);
    Ok(ExecutionParticipants {
        registry,
        registry_object,
        hooks,
    })
}

fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let tool_call = call
        .value(0)
        .map_or_else(|| Err(Failure::Pending), to_tool_call)?;
    let results = run(call, vec![tool_call], ExecutionMode::Sequential)?;
    new_first_result(&results)
}

fn execute_all(call: &mut MethodCall<'_>) -> Outcome {
    let calls = read_calls(call.array(0)?)?;
    to_result_list(&run(call, calls, ExecutionMode::Sequential)?)
}

fn execute_parallel(call: &mut MethodCall<'_>) -> Outcome {
    let calls = read_calls(call.array(0)?)?;
    to_result_list(&run(call, calls, ExecutionMode::Parallel)?)
}

fn run(
    call: &MethodCall<'_>,
    calls: Vec<ToolCall>,
    mode: ExecutionMode,
) -> Result<Vec<ToolResult>> {
    let context = context_argument(call, 1)?;
    let this = call.this();
    let state = read_state::<ToolExecutor>(this)?;
    let registry_value = this.get(CLASS.get(), "registry")?;
    let participants = read_participants(this, &registry_value)?;
    super::execute(&participants, &state.executor, calls, context, mode)
}

/// Reads the calls in a list of `ToolCall` objects or arrays.
fn read_calls(list: &Zval) -> Result<Vec<ToolCall>> {
    entries(list).map(|(_, call)| to_tool_call(&call)).collect()
}

fn to_result_list(results: &[ToolResult]) -> Outcome {
    try_new_list(results.iter().map(new_result))
}
