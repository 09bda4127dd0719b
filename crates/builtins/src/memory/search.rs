use std::sync::Arc;

use pillion_core::store::{Memory, MemorySearch, MemoryStore, Timestamp};
use pillion_core::tool::{
    JsonObject, ParameterType, ToolDefinition, ToolFailure, ToolOutput, ToolParameter,
};
use serde_json::{Value, json};

use super::{MemoryScope, log_unavailable_store, sanitize};
use crate::arguments;

/// Default number of memories in a result.
const DEFAULT_RESULT_COUNT: u8 = 5;
/// Maximum number of memories in a result.
const MAX_RESULT_COUNT: u8 = 20;

/// Maximum length of a query, in characters: a search looks for each word in each memory.
const MAX_QUERY_CHARS: usize = 1_000;

/// Returns the definition of `search_memory`. Arguments: `{query, limit = 5}`. Result: text for the
/// model and `data = {query, memories: [{id, content, category, importance, shared, created_at}]}`,
/// ordered by importance and then by last access, highest and latest first.
///
/// A memory matches if it contains each of the first five words of the query, case-insensitively,
/// also as a part of a longer word. `limit` is clamped to 1 to 20.
pub(super) fn definition() -> ToolDefinition {
    let query = ToolParameter::new("query", ParameterType::String)
        .describe("Words that must all occur in a memory; words after the fifth are ignored");
    let limit = ToolParameter::new("limit", ParameterType::Integer)
        .describe("Maximum number of memories, 1 to 20")
        .default_value(json!(DEFAULT_RESULT_COUNT));
    ToolDefinition::builder(
        "search_memory",
        "Search the memories of this user and this conversation.",
    )
    .category("memory")
    .parameters([query, limit])
    .build()
    .expect("the definition is constant, and a test builds it")
}

pub(super) async fn run(
    store: Arc<dyn MemoryStore>,
    arguments: JsonObject,
    scope: MemoryScope,
) -> Result<ToolOutput, ToolFailure> {
    let MemoryScope { channel, user } = scope;
    let query = sanitize(arguments::text(&arguments, "query"));
    arguments::check_text("query", &query, MAX_QUERY_CHARS)?;
    let requested_limit = arguments.get("limit");
    let limit = arguments::result_count(requested_limit, DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT);
    let search = MemorySearch {
        channel,
        user,
        query,
        limit: limit.into(),
    };
    let now = Timestamp::now();
    let search_result = store.search_memories(&search, now).await;
    let memories = search_result.map_err(|error| log_unavailable_store(&error))?;
    let lines: Vec<String> = memories.iter().map(format_memory).collect();
    let text = if lines.is_empty() {
        "No memories found".to_owned()
    } else {
        lines.join("\n")
    };
    let memories_json: Vec<Value> = memories.iter().map(memory_to_json).collect();
    Ok(ToolOutput::text(text).with_data(json!({"query": search.query, "memories": memories_json})))
}

fn format_memory(memory: &Memory) -> String {
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
pub(super) fn memory_to_json(memory: &Memory) -> Value {
    json!({
        "id": memory.id,
        "content": memory.content,
        "category": memory.category.as_str(),
        "importance": memory.importance,
        "shared": memory.user.is_none(),
        "created_at": jiff::Timestamp::from_millisecond(memory.created_at.as_millis())
            .ok()
            .map(|time| time.to_string()),
    })
}
