use std::sync::Arc;

use ext_php_rs::types::Zval;
use pillion_core::executor::{ApprovalFuture, ApprovalRequest, Approver, Decision};
use pillion_core::tool::{ToolCall, ToolFailure};
use serde_json::Value;

use crate::classes::{tool_call, tool_definition};
use crate::context;
use crate::exception;
use crate::json::{EmptyObject, decode_value};
use crate::mcp::hooks::{self, Hooks};
use crate::switchboard::{Switchboard, Work, gone};
use crate::wait::Job;
use crate::zend::{Failure, call_callable, must_stop, type_name};

/// Hands requests to the PHP thread that waits for the call, if it has somebody to ask.
pub(super) struct PhpApprover {
    switchboard: Arc<Switchboard>,
}

impl PhpApprover {
    pub(super) fn new(switchboard: &Arc<Switchboard>) -> Self {
        Self {
            switchboard: Arc::clone(switchboard),
        }
    }
}

impl Approver for PhpApprover {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let line = self.switchboard.find(&request.context);
        Box::pin(async move {
            let Some(line) = line.filter(|line| line.serves().approvals) else {
                return Ok(Decision::Undecided);
            };
            let _turn = line.turn_of_another(&request.context).await;
            let (job, answer) = Job::new(Box::new(request));
            line.send(Work::Approve(job));
            answer
                .await
                .unwrap_or_else(|_| Err(gone("The question for approval")))
        })
    }
}

/// Asks the application's callable: `fn (ToolCall, ToolDefinition, array $context): ?bool`.
/// What it throws fails the call, which then does not run.
pub(super) fn ask(
    hooks: Option<Hooks<'_>>,
    request: &ApprovalRequest,
) -> Result<Result<Decision, ToolFailure>, Failure> {
    let approve = match hooks {
        Some(hooks) => hooks.get(hooks::APPROVE),
        None => None,
    };
    let Some(approve) = approve else {
        return Ok(Ok(Decision::Undecided));
    };
    match call(&approve, request) {
        // What was given up on the way may have a destructor that throws.
        Ok(_) if must_stop() => exception::into_tool_failure(Failure::Pending).map(Err),
        Ok(decision) => Ok(decision),
        Err(failure) => exception::into_tool_failure(failure).map(Err),
    }
}

fn call(
    approve: &Zval,
    request: &ApprovalRequest,
) -> Result<Result<Decision, ToolFailure>, Failure> {
    let arguments = Value::Object(request.arguments.clone());
    let name = request.tool.name().as_str();
    let call = ToolCall::new(&request.context.call_id, name, arguments);
    let context = context::shown(&request.context, Some(&request.id));
    let answer = call_callable(
        approve,
        [
            tool_call::new_call(&call)?,
            tool_definition::new_definition(request.tool.definition())?,
            decode_value(&context, EmptyObject::Array)?,
        ],
    )?;
    Ok(match answer.bool() {
        Some(true) => Ok(Decision::Approved),
        Some(false) => Ok(Decision::Denied),
        None if answer.is_null() => Ok(Decision::Undecided),
        None => Err(ToolFailure::internal(format!(
            "The callable 'approve' must return bool or null, not {}",
            type_name(&answer)
        ))),
    })
}
