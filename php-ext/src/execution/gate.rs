use std::sync::Arc;

use pillion_core::executor::{Gate, GateFuture, ReadyCall};
use pillion_core::tool::{ToolFailure, ToolOutput};

use super::question::{self, About};
use super::run::outcome_of;
use crate::classes::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::exception;
use crate::mcp::hooks::{self, Hooks};
use crate::switchboard::{Switchboard, Work};
use crate::zend::Failure;

/// Forwards calls that are about to run to the PHP thread that waits for them, if it has a `before`
/// callable.
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

impl Gate for PhpGate {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let line = self.switchboard.find(&call.context);
        Box::pin(async move {
            let Some(line) = line.filter(|line| line.serves().gate) else {
                return Ok(None);
            };
            let _turn = line.turn_of_another(&call.context).await;
            line.ask(Work::Enter, Box::new(call), "The question before the call")
                .await
        })
    }
}

/// Calls the `before` callable: null lets the call run, a result replaces the call.
pub(super) fn ask(
    hooks: Option<Hooks<'_>>,
    ready: &ReadyCall,
) -> Result<Result<Option<ToolOutput>, ToolFailure>, Failure> {
    let about = About {
        tool: &ready.tool,
        arguments: &ready.arguments,
        context: &ready.context,
        approval: ready.approval.as_deref(),
    };
    let said = question::ask(hooks, hooks::BEFORE, &about, TOOL_RESULT, |answer| {
        let result = result_of(answer).map_err(exception::as_internal)?;
        Ok(result.map(outcome_of))
    })?;
    Ok(said.and_then(Option::transpose))
}
