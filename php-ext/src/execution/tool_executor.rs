//! `ToolExecutor`: runs tool calls.

mod options;

use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::executor::Executor;
use pillion_core::job_channel;
use pillion_core::tool::{ToolCall, ToolResult};

use super::{ExecutionParticipants, Mode, PhpThread};
use crate::clients::client_hooks;
use crate::context::context_argument;
use crate::mcp::hooks::{self, Hooks};
use crate::tools::registry::{self, is_registry, registry_of};
use crate::values::tool_call::call_of;
use crate::values::tool_result::new_result;
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, State, StateClass, construct, entries, list_of,
    methods, state_of,
};

const NAME: &str = "Pillion\\ToolExecutor";
static CLASS: StateClass<ToolExecutor> = StateClass::new();

struct ToolExecutor {
    executor: Executor,
}

impl State for ToolExecutor {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
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
    CLASS.register(client_hooks::observing::<ToolExecutor>(class))
}

fn construct_executor(call: &mut MethodCall<'_>) -> Outcome {
    let value = call
        .value(0)
        .filter(|value| is_registry(value))
        .ok_or_else(|| call.type_error(0, registry::NAME))?;
    let (_, registry) = registry_of(value)?;
    let options::Options {
        config,
        approve,
        before,
    } = match call.optional_array(1)? {
        Some(value) => options::read(value)?,
        None => options::Options::default(),
    };
    let this = call.this();
    let tools = Arc::clone(&registry.tools);
    let hooks = job_channel::hooks::<PhpThread>();
    let executor = Executor::with_hooks(tools, config, hooks);
    construct(this, ToolExecutor { executor })?;
    this.set(CLASS.get(), "registry", value.shallow_clone());
    let hooks = hooks_of(this)?;
    for (name, callable) in [(hooks::APPROVE, &approve), (hooks::BEFORE, &before)] {
        if !callable.is_null() {
            hooks.set(name, Some(callable));
        }
    }
    Ok(Zval::new())
}

/// Returns the hooks of an executor.
pub fn hooks_of(executor: Object<'_>) -> Result<Hooks<'_>, Failure> {
    Hooks::for_object::<ToolExecutor>(executor)
}

/// Returns whether an object is a `ToolExecutor`.
pub fn is_executor(object: Object<'_>) -> bool {
    object.instance_of(CLASS.get())
}

/// Returns whether an executor's class is a subclass that the application has written, whose
/// methods must be used.
pub fn is_extended(executor: Object<'_>) -> bool {
    !std::ptr::eq(executor.class(), CLASS.get())
}

/// Returns the engine's executor of a `ToolExecutor`.
///
/// # Errors
/// An `Error` if the object's constructor has not run.
pub fn executor_of(executor: Object<'_>) -> Result<&Executor, Failure> {
    Ok(&state_of::<ToolExecutor>(executor)?.executor)
}

/// Returns the registry of an executor.
///
/// # Errors
/// An `Error` if the object's constructor has not run.
pub fn registry_value(executor: Object<'_>) -> Outcome {
    state_of::<ToolExecutor>(executor)?;
    executor.get(CLASS.get(), "registry")
}

fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let single = call
        .value(0)
        .map_or_else(|| Err(Failure::Pending), call_of)?;
    let results = run(call, vec![single], Mode::Sequential)?;
    match results.first() {
        Some(result) => new_result(result),
        None => Err(Failure::error("The call has no result")),
    }
}

fn execute_all(call: &mut MethodCall<'_>) -> Outcome {
    let calls = calls_of(call.array(0)?)?;
    results_of(&run(call, calls, Mode::Sequential)?)
}

fn execute_parallel(call: &mut MethodCall<'_>) -> Outcome {
    let calls = calls_of(call.array(0)?)?;
    results_of(&run(call, calls, Mode::Parallel)?)
}

fn run(
    call: &MethodCall<'_>,
    calls: Vec<ToolCall>,
    mode: Mode,
) -> Result<Vec<ToolResult>, Failure> {
    let context = context_argument(call, 1)?;
    let this = call.this();
    let state = state_of::<ToolExecutor>(this)?;
    let registry = this.get(CLASS.get(), "registry")?;
    let (object, registry) = registry_of(&registry)?;
    let participants = ExecutionParticipants {
        registry,
        object,
        hooks: Some(hooks_of(this)?),
    };
    super::execute(&participants, &state.executor, calls, context, mode)
}

/// Reads the calls in a list of `ToolCall` objects or arrays.
fn calls_of(list: &Zval) -> Result<Vec<ToolCall>, Failure> {
    entries(list).map(|(_, call)| call_of(&call)).collect()
}

fn results_of(results: &[ToolResult]) -> Outcome {
    let results = results
        .iter()
        .map(new_result)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(list_of(results))
}
