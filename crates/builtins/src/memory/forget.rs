use std::sync::Arc;

use pillion_core::store::MemoryStore;
use pillion_core::tool::{
    ErrorCode, JsonObject, ParameterType, ToolDefinition, ToolFailure, ToolOutput, ToolParameter,
};
use serde_json::json;

use super::{MemoryScope, log_unavailable_store, sanitize};
use crate::{Excerpt, arguments};

/// Returns the definition of `forget`. Argument: `{id}`. Result: `data = {id}`. If the memory does
/// not exist or the caller may not see it, the call fails with `not_found`.
pub(super) fn definition() -> ToolDefinition {
    let id = ToolParameter::new("id", ParameterType::String)
        .describe("The id of the memory, as returned by search_memory");
    ToolDefinition::builder("forget", "Forget a memory.")
        .category("memory")
        .parameters([id])
        .build()
        .expect("the definition is constant, and a test builds it")
}

pub(super) async fn run(
    store: Arc<dyn MemoryStore>,
    arguments: JsonObject,
    scope: MemoryScope,
) -> Result<ToolOutput, ToolFailure> {
    let MemoryScope { channel, user } = scope;
    let id = sanitize(arguments::text(&arguments, "id"));
    match store.remove_memory(&channel, user.as_deref(), &id).await {
        Ok(()) => Ok(ToolOutput::text("Forgotten").with_data(json!({"id": id}))),
        Err(error) if error.is_not_found() => {
            let message = format!("Memory not found: {}", Excerpt::new(&id));
            Err(ToolFailure::new(ErrorCode::NotFound, message))
        }
        Err(error) => Err(log_unavailable_store(&error)),
    }
}
