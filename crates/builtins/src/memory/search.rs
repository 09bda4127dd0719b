use std::sync::Arc;

use pillion_core::store::{Memory, MemorySearch, MemoryStore, Timestamp};
use pillion_core::tool::{
    ActingIdentityFuture, CallContext, JsonObject, ParameterType, Tool, ToolDefinition,
    ToolFailure, ToolFuture, ToolOutput, ToolParameter,
};
use serde_json::{Value, json};

use super::{MemoryScope, sanitize, unavailable};

/// The default and the maximum number of memories in a result.
const DEFAULT_RESULTS: u8 = 5;
const MAX_RESULTS: u8 = 20;

/// Maximum length of a query, in characters: a search looks for each word in each memory.
const MAX_QUERY_LEN: usize = 1_000;

/// The tool `search_memory`. Arguments: `{query, limit = 5}`. Result: text for the model and `data
/// = {query, memories: [{id, content, category, importance, shared, created_at}]}`, ordered by
/// importance and then by last access, highest and latest first.
///
/// The first five words of the query must all occur, case-insensitively, also within words. `limit`
/// is clamped to 1 to 20.
pub struct SearchMemory {
    definition: ToolDefinition,
    store: Arc<dyn MemoryStore>,
}

impl SearchMemory {
    /// Creates the tool over a store.
    #[must_use]
    pub fn new(store: Arc<dyn MemoryStore>) -> Self {
        let query = ToolParameter::new("query", ParameterType::String)
            .describe("Words that all have to occur in a memory; the first five count");
        let limit = ToolParameter::new("limit", ParameterType::Integer)
            .describe("Number of memories, 1 to 20")
            .default_value(json!(DEFAULT_RESULTS));
        let definition = ToolDefinition::builder(
            "search_memory",
            "Search what was remembered of this user and this conversation.",
        )
        .category("memory")
        .parameters([query, limit])
        .build()
        .expect("the definition is constant, and a test builds it");
        Self { definition, store }
    }

    async fn search(
        &self,
        arguments: &JsonObject,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolFailure> {
        let MemoryScope { channel, user } = MemoryScope::from_context(context)?;
        let query = sanitize(arguments.get("query").and_then(Value::as_str).unwrap_or(""));
        if query.is_empty() {
            return Err(ToolFailure::invalid_input("No query provided"));
        }
        if query.chars().count() > MAX_QUERY_LEN {
            let message = format!("The query is longer than {MAX_QUERY_LEN} characters");
            return Err(ToolFailure::invalid_input(message));
        }
        let requested_limit = arguments.get("limit").and_then(Value::as_f64);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped, and a cast keeps within the type"
        )]
        let limit = requested_limit.map_or(DEFAULT_RESULTS, |limit| {
            limit.clamp(1.0, f64::from(MAX_RESULTS)) as u8
        });
        let search = MemorySearch {
            channel,
            user,
            query,
            limit: limit.into(),
        };
        let now = Timestamp::now();
        let search_result = self.store.search_memories(&search, now).await;
        let found = search_result.map_err(|error| unavailable(&error))?;
        let lines: Vec<String> = found.iter().map(line).collect();
        let text = if lines.is_empty() {
            "No memories found".to_owned()
        } else {
            lines.join("\n")
        };
        let memories: Vec<Value> = found.iter().map(shown).collect();
        Ok(ToolOutput::text(text).with_data(json!({"query": search.query, "memories": memories})))
    }
}

fn line(memory: &Memory) -> String {
    let Memory {
        id,
        content,
        category,
        importance,
        ..
    } = memory;
    let category = category.as_str();
    format!("- {content} ({category}, importance {importance}, id {id})")
}

/// Returns a memory as JSON.
pub(super) fn shown(memory: &Memory) -> Value {
    json!({
        "id": memory.id,
        "content": memory.content,
        "category": memory.category.as_str(),
        "importance": memory.importance,
        "shared": memory.user.is_none(),
        "created_at": jiff::Timestamp::from_millisecond(memory.created_at.as_millis())
            .ok()
            .map(|at| at.to_string()),
    })
}

impl Tool for SearchMemory {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        Some(MemoryScope::acting_identity(context))
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.search(&arguments, &context).await })
    }
}
