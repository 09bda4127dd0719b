use std::sync::Arc;

use pillion_core::store::MemoryStore;
use pillion_core::tool::{
    ActingIdentityFuture, CallContext, ErrorCode, JsonObject, ParameterType, Tool, ToolDefinition,
    ToolFailure, ToolFuture, ToolOutput, ToolParameter,
};
use serde_json::{Value, json};

use super::{MemoryScope, sanitize, unavailable};
use crate::Excerpt;

/// The tool `forget`. Argument: `{id}`. Result: `data = {id}`. A memory that the caller could not
/// find is `not_found`.
pub struct Forget {
    definition: ToolDefinition,
    store: Arc<dyn MemoryStore>,
}

impl Forget {
    /// Creates the tool over a store.
    #[must_use]
    pub fn new(store: Arc<dyn MemoryStore>) -> Self {
        let id = ToolParameter::new("id", ParameterType::String)
            .describe("The memory's id, as search_memory tells it");
        let definition = ToolDefinition::builder("forget", "Forget something that was remembered.")
            .category("memory")
            .parameters([id])
            .build()
            .expect("the definition is constant, and a test builds it");
        Self { definition, store }
    }

    async fn forget(
        &self,
        arguments: &JsonObject,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolFailure> {
        let MemoryScope { channel, user } = MemoryScope::from_context(context)?;
        let id = sanitize(arguments.get("id").and_then(Value::as_str).unwrap_or(""));
        let removed = self.store.remove_memory(&channel, user.as_deref(), &id);
        match removed.await {
            Ok(()) => Ok(ToolOutput::text("Forgotten").with_data(json!({"id": id}))),
            Err(error) if error.is_not_found() => {
                let text = format!("Memory not found: {}", Excerpt::new(&id));
                Err(ToolFailure::new(ErrorCode::NotFound, text))
            }
            Err(error) => Err(unavailable(&error)),
        }
    }
}

impl Tool for Forget {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        Some(MemoryScope::acting_identity(context))
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.forget(&arguments, &context).await })
    }
}
