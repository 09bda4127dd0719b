//! Takes calls from PHP through the executor of the engine (requirements C1 to C7).

use ext_php_rs::types::Zval;
use futures_util::future::join;
use pillion_core::executor::Executor;
use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, ToolCall, ToolFailure, ToolOutput, ToolResult,
};
use serde_json::Value;

use crate::classes::callable_tool;
use crate::classes::tool_registry::{self, Registry};
use crate::classes::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::exception;
use crate::json::{EmptyObject, decode_value, to_value};
use crate::wait::{Job, wait_serving};
use crate::zend::{Failure, Object, call_callable, string_of};

/// How several calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One after the other.
    Sequential,
    /// Native and MCP tools side by side, beside them the tools in PHP one after the other.
    Parallel,
}

/// Runs calls and waits for them; the results are in the order of the calls.
///
/// There is one PHP thread, so tools in PHP take turns. Each one's time limit starts when
/// its turn comes: waiting for the thread is not the tool's fault.
///
/// # Errors
/// What ends the wait as a whole: an exception of a signal handler, `exit()` in a tool,
/// the end of the request. A tool that fails has a failed result instead.
pub fn execute(
    object: Object<'_>,
    registry: &Registry,
    executor: &Executor,
    calls: Vec<ToolCall>,
    mut context: CallContext,
    mode: Mode,
) -> Result<Vec<ToolResult>, Failure> {
    registry.follow_fork()?;
    let places = calls.len();
    let (in_php, others): (Vec<_>, Vec<_>) = calls
        .into_iter()
        .enumerate()
        .partition(|(_, call)| mode == Mode::Sequential || registry.is_php(&call.name));
    let executor = executor.clone();
    let ran = wait_serving(
        |jobs| {
            let line = registry.switchboard().open(jobs, &mut context);
            async move {
                let _line = line;
                let (php_places, php_calls): (Vec<_>, _) = in_php.into_iter().unzip();
                let (other_places, other_calls): (Vec<_>, _) = others.into_iter().unzip();
                let (in_php, others) = join(
                    executor.execute(php_calls, &context),
                    executor.execute_parallel(other_calls, &context),
                )
                .await;
                let in_php = php_places.into_iter().zip(in_php);
                in_php
                    .chain(other_places.into_iter().zip(others))
                    .collect::<Vec<_>>()
            }
        },
        |job| serve(object, job),
    )?;
    let mut ordered: Vec<Option<ToolResult>> = (0..places).map(|_| None).collect();
    for (place, result) in ran {
        ordered[place] = Some(result);
    }
    Ok(ordered.into_iter().flatten().collect())
}

/// Runs one tool in PHP, on the PHP thread.
fn serve(registry: Object<'_>, job: Job) -> Result<(), Failure> {
    if job.is_abandoned() {
        return Ok(());
    }
    let outcome = match tool_registry::find_tool(registry, &job.tool)? {
        Some(tool) => run(&tool, &job)?,
        None => Err(ToolFailure::new(
            ErrorCode::NotFound,
            format!("Unknown tool: {}", job.tool),
        )),
    };
    job.answer(outcome);
    Ok(())
}

fn run(tool: &Zval, job: &Job) -> Result<Result<ToolOutput, ToolFailure>, Failure> {
    let Some(object) = Object::of(tool) else {
        return Ok(Err(ToolFailure::internal("The tool is no object")));
    };
    match call_tool(object, &job.arguments, &job.call_id) {
        Ok(outcome) => Ok(outcome),
        Err(failure) => exception::into_tool_failure(failure).map(Err),
    }
}

fn call_tool(
    tool: Object<'_>,
    arguments: &JsonObject,
    call_id: &str,
) -> Result<Result<ToolOutput, ToolFailure>, Failure> {
    let arguments = decode_value(&Value::Object(arguments.clone()), EmptyObject::Array)?;
    let arguments = [arguments, string_of(call_id)];
    let handler = callable_tool::handler_of(tool)?;
    let value = match &handler {
        Some(handler) => call_callable(handler, arguments)?,
        None => tool.call("execute", arguments.each_ref().map(Zval::shallow_clone))?,
    };
    match result_of(&value)? {
        Some(result) => Ok(outcome_of(result)),
        None if handler.is_some() => Ok(Ok(ToolOutput::value(to_value(&value)?))),
        None => Ok(Err(ToolFailure::internal(format!(
            "{}::execute() returned no {TOOL_RESULT}",
            tool.class_name()
        )))),
    }
}

fn outcome_of(result: ToolResult) -> Result<ToolOutput, ToolFailure> {
    if result.success {
        return Ok(ToolOutput {
            result: result.result,
            data: result.data,
            metadata: result.metadata,
        });
    }
    let code = result.error_code.unwrap_or(ErrorCode::InternalError);
    let message = result.error.unwrap_or_else(|| "The tool failed".to_owned());
    Err(ToolFailure::new(code, message).with_result(result.result))
}
