use std::sync::Arc;

use pillion_core::executor::{ApprovalFuture, ApprovalRequest, Approver, Decision};
use pillion_core::tool::ToolFailure;

use super::question::{self, About};
use crate::mcp::hooks::{self, Hooks};
use crate::switchboard::{Switchboard, Work};
use crate::zend::Failure;

/// Forwards approval requests to the PHP thread that waits for the call, if it has an `approve`
/// callable.
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
            line.ask(
                Work::Approve,
                Box::new(request),
                "The question for approval",
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
    let about = About {
        tool: &request.tool,
        arguments: &request.arguments,
        context: &request.context,
        approval: Some(&request.id),
    };
    let said = question::ask(hooks, hooks::APPROVE, &about, "bool", |answer| {
        Ok(answer.bool().map(|is_approved| {
            if is_approved {
                Decision::Approved
            } else {
                Decision::Denied
            }
        }))
    })?;
    Ok(said.map(|decision| decision.unwrap_or(Decision::Undecided)))
}
