use std::sync::Arc;

use ext_php_rs::types::Zval;
use pillion_core::executor::{Gate, GateFuture, ReadyCall};
use pillion_core::tool::{ToolCall, ToolFailure, ToolOutput};
use serde_json::Value;

use super::run::outcome_of;
use crate::classes::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::classes::{tool_call, tool_definition};
use crate::context;
use crate::exception;
use crate::json::{EmptyObject, decode_value};
use crate::mcp::hooks::{self, Hooks};
use crate::switchboard::{Switchboard, Work, gone};
use crate::wait::Job;
use crate::zend::{Failure, call_callable, must_stop, type_name};

/// Hands calls that are about to run to the PHP thread that waits for them, if it has
/// somebody to ask.
pub(super) struct PhpGate {
    switchboard: Arc<Switchboard>,
}

impl PhpGate {
    pub(super) fn new(switchboard: &Arc<Switchboard>) -> Self {
        Self {
            switchboard: Arc::clone(switchboard),
        }
    }
}

/// How a call ends that does not run, or `None` for one that does.
pub type Answer = Result<Option<ToolOutput>, ToolFailure>;

impl Gate for PhpGate {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let line = self.switchboard.find(&call.context);
        Box::pin(async move {
            let Some(line) = line.filter(|line| line.serves().gate) else {
                return Ok(None);
            };
            let _turn = line.turn_of_another(&call.context).await;
            let (job, answer) = Job::new(Box::new(call));
            line.send(Work::Enter(job));
            answer
                .await
                .unwrap_or_else(|_| Err(gone("The question before the call")))
        })
    }
}

/// Asks the application's callable: `fn (ToolCall, ToolDefinition, array $context): ?ToolResult`.
/// What it throws fails the call, which then does not run.
pub(super) fn ask(hooks: Option<Hooks<'_>>, ready: &ReadyCall) -> Result<Answer, Failure> {
    let before = match hooks {
        Some(hooks) => hooks.get(hooks::BEFORE),
        None => None,
    };
    let Some(before) = before else {
        return Ok(Ok(None));
    };
    match call(&before, ready) {
        // What was given up on the way may have a destructor that throws.
        Ok(_) if must_stop() => exception::into_tool_failure(Failure::Pending).map(Err),
        Ok(answer) => Ok(answer),
        Err(failure) => exception::into_tool_failure(failure).map(Err),
    }
}

fn call(before: &Zval, ready: &ReadyCall) -> Result<Answer, Failure> {
    let arguments = Value::Object(ready.arguments.clone());
    let name = ready.tool.name().as_str();
    let call = ToolCall::new(&ready.context.call_id, name, arguments);
    let context = context::shown(&ready.context, ready.approval.as_deref());
    let answer = call_callable(
        before,
        [
            tool_call::new_call(&call)?,
            tool_definition::new_definition(ready.tool.definition())?,
            decode_value(&context, EmptyObject::Array)?,
        ],
    )?;
    if answer.is_null() {
        return Ok(Ok(None));
    }
    Ok(match result_of(&answer)? {
        Some(result) => outcome_of(result).map(Some),
        None => Err(ToolFailure::internal(format!(
            "The callable 'before' must return {TOOL_RESULT} or null, not {}",
            type_name(&answer)
        ))),
    })
}
