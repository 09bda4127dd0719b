use crate::registry::RegisteredTool;
use crate::tool::{JsonObject, ToolFailure};

/// Checks the arguments against the tool's schema and fills in its defaults (C3).
pub(super) fn against_schema(
    tool: &RegisteredTool,
    mut arguments: JsonObject,
) -> Result<JsonObject, ToolFailure> {
    if let Some(schema) = tool.schema() {
        schema
            .validate(&mut arguments)
            .map_err(|violation| ToolFailure::invalid_input(violation.to_string()))?;
    }
    Ok(arguments)
}
