use std::sync::Arc;

use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ToolFailure};

/// Maximum length of an unknown tool name in an error message, in characters.
const LONGEST_NAME: usize = 128;

/// Returns the tool, or a `not_found` failure.
pub(super) fn found(
    tool: Option<Arc<RegisteredTool>>,
    name: &str,
) -> Result<Arc<RegisteredTool>, ToolFailure> {
    tool.ok_or_else(|| {
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        ToolFailure::new(ErrorCode::NotFound, format!("Unknown tool: {shown}"))
    })
}
