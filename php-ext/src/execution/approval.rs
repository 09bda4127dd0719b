use ext_php_rs::types::Zval;
use pillion_core::executor::{ApprovalRequest, Decision};
use pillion_core::tool::ToolFailure;
use serde_json::Value;

use super::callback::{self, CallDetails};
use crate::json::to_value;
use crate::mcp::hooks::{self, Hooks};
use crate::zend::Failure;

/// Calls the `approve` callable: true approves, arguments approve the call with these arguments,
/// false denies, null leaves the call undecided.
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
    let expected = "bool, arguments by name";
    let answer = callback::call_option(hooks, hooks::APPROVE, &details, expected, read_decision)?;
    Ok(answer.map(|decision| decision.unwrap_or(Decision::Undecided)))
}

fn read_decision(returned: &Zval) -> Result<Option<Decision>, Failure> {
    if returned.is_array() {
        // An empty array is a list, as it is false: it approves nothing.
        return Ok(match to_value(returned)? {
            Value::Object(arguments) => Some(Decision::Edited(arguments)),
            _ => None,
        });
    }
    Ok(returned.bool().map(|is_approved| {
        if is_approved {
            Decision::Approved
        } else {
            Decision::Denied
        }
    }))
}
