use std::sync::Arc;

use pillion_core::executor::{CallGate, GateFuture, ReadyCall};
use pillion_core::tool::{ToolFailure, ToolOutput};

use super::callback::{self, CallDetails};
use super::run::outcome_of;
use crate::classes::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::exception;
use crate::execution_registry::{ExecutionJob, ExecutionRegistry};
use crate::mcp::hooks::{self, Hooks};
use crate::zend::Failure;

/// Forwards calls that are about to run to the PHP thread that waits for them, if it has a `before`
/// callable.
pub(super) struct PhpGate {
    executions: Arc<ExecutionRegistry>,
}

impl PhpGate {
    pub(super) fn new(executions: &Arc<ExecutionRegistry>) -> Self {
        Self {
            executions: Arc::clone(executions),
        }
    }
}

impl CallGate for PhpGate {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let execution = self.executions.find(&call.context);
        Box::pin(async move {
            let Some(execution) = execution.filter(|execution| execution.handled_jobs().gate)
            else {
                return Ok(None);
            };
            let _turn = execution.acquire_turn_unless_held(&call.context).await;
            execution
                .request(
                    ExecutionJob::Enter,
                    Box::new(call),
                    "The check before the call",
                )
                .await
        })
    }
}

/// Calls the `before` callable: null lets the call run, a result replaces the call.
pub(super) fn ask(
    hooks: Option<Hooks<'_>>,
    ready: &ReadyCall,
) -> Result<Result<Option<ToolOutput>, ToolFailure>, Failure> {
    let details = CallDetails {
        tool: &ready.tool,
        arguments: &ready.arguments,
        context: &ready.context,
        approval: ready.approval.as_deref(),
    };
    let answer = callback::call_option(hooks, hooks::BEFORE, &details, TOOL_RESULT, |returned| {
        let result = result_of(returned).map_err(exception::as_internal)?;
        Ok(result.map(outcome_of))
    })?;
    Ok(answer.and_then(Option::transpose))
}
