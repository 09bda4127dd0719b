use std::sync::Arc;

use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::{ErrorCode, ToolFailure};

/// Longest part of an unknown name that is repeated in an error, in characters.
const LONGEST_NAME: usize = 128;

/// Finds the tool by name or alias; the text for an unknown one is S0's (B5).
pub(super) fn tool(
    registry: &ToolRegistry,
    name: &str,
) -> Result<Arc<RegisteredTool>, ToolFailure> {
    registry.get(name).ok_or_else(|| {
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        ToolFailure::new(ErrorCode::NotFound, format!("Unknown tool: {shown}"))
    })
}
