use std::sync::Arc;

use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ToolFailure};

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
