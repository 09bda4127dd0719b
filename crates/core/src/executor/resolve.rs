use std::sync::Arc;

use crate::registry::RegisteredTool;
use crate::tool::{CallContext, ErrorCode, Nesting, ToolFailure};

/// Maximum length of an unknown tool name in an error message, in characters.
const MAX_NAME_LEN: usize = 128;

/// Returns the tool, or a `not_found` failure.
pub(super) fn found(
    tool: Option<Arc<RegisteredTool>>,
    name: &str,
) -> Result<Arc<RegisteredTool>, ToolFailure> {
    tool.ok_or_else(|| {
        let shown: String = name.chars().take(MAX_NAME_LEN).collect();
        ToolFailure::new(ErrorCode::NotFound, format!("Unknown tool: {shown}"))
    })
}

/// Accepts calls that are not nested, and nested calls that are allowed and within the nesting
/// limits.
pub(super) fn admit(
    tool: &RegisteredTool,
    name: &str,
    context: &CallContext,
) -> Result<(), ToolFailure> {
    let Some(nesting) = &context.nesting else {
        return Ok(());
    };
    if let Some(filter) = context.may_use.as_ref().filter(|_| !nesting.is_granted)
        && !filter.admits(tool.name().as_str(), tool.origin())
    {
        // Reported as unknown, because the caller may not learn that the tool exists.
        return found(None, name).map(drop);
    }
    let too_much = |what: String| Err(ToolFailure::new(ErrorCode::InternalError, what));
    let (max_depth, max_calls) = (Nesting::MAX_DEPTH, Nesting::MAX_CALLS);
    if nesting.depth > max_depth {
        return too_much(format!(
            "Nested tool calls are limited to {max_depth} levels"
        ));
    }
    if nesting.count() > max_calls {
        return too_much(format!(
            "Nested tool calls are limited to {max_calls} for one call"
        ));
    }
    Ok(())
}
