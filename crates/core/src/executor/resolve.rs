use std::sync::Arc;

use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ToolFailure};

/// Longest part of an unknown name that is repeated in an error, in characters.
const LONGEST_NAME: usize = 128;

/// The tool that was found by name or alias; the text for an unknown one is S0's (B5).
pub(super) fn found(
    tool: Option<Arc<RegisteredTool>>,
    name: &str,
) -> Result<Arc<RegisteredTool>, ToolFailure> {
    tool.ok_or_else(|| {
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        ToolFailure::new(ErrorCode::NotFound, format!("Unknown tool: {shown}"))
    })
}
