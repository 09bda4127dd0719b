use std::sync::Arc;

use pillion_core::executor::{ApprovalFuture, ApprovalRequest, Approver, Decision};
use pillion_core::tool::ToolFailure;

use super::callback::{self, CallDetails};
use crate::execution_registry::{ExecutionJob, ExecutionRegistry};
use crate::mcp::hooks::{self, Hooks};
use crate::zend::Failure;

/// Forwards approval requests to the PHP thread that waits for the call, if it has an `approve`
/// callable.
pub(super) struct PhpApprover {
    executions: Arc<ExecutionRegistry>,
}

impl PhpApprover {
    pub(super) fn new(executions: &Arc<ExecutionRegistry>) -> Self {
        Self {
            executions: Arc::clone(executions),
        }
    }
}

impl Approver for PhpApprover {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let execution = self.executions.find(&request.context);
        Box::pin(async move {
            let Some(execution) = execution.filter(|execution| execution.handled_jobs().approvals)
            else {
                return Ok(Decision::Undecided);
            };
            let _turn = execution.acquire_turn_unless_held(&request.context).await;
            execution
                .request(
                    ExecutionJob::Approve,
                    Box::new(request),
                    "The approval request",
                )
                .await
        })
    }
}

/// Calls the `approve` callable: true approves, false denies, null leaves the call undecided.
pub(super) fn ask(
    hooks: Option<Hooks<'_>>,
    request: &ApprovalRequest,
) -> Result<Result<Decision, ToolFailure>, Failure> {
    let details = CallDetails {
        tool: &request.tool,
        arguments: &request.arguments,
        context: &request.context,
        approval: Some(&request.id),
    };
    let answer = callback::call_option(hooks, hooks::APPROVE, &details, "bool", |returned| {
        Ok(returned.bool().map(|is_approved| {
            if is_approved {
                Decision::Approved
            } else {
                Decision::Denied
            }
        }))
    })?;
    Ok(answer.map(|decision| decision.unwrap_or(Decision::Undecided)))
}
