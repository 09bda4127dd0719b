use std::sync::Arc;

use pillion_core::store::{Memory, MemoryCategory, MemoryStore, Timestamp};
use pillion_core::tool::{
    JsonObject, ParameterType, ToolDefinition, ToolFailure, ToolOutput, ToolParameter,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    MAX_CONTENT_CHARS, MAX_MEMORIES, MemoryScope, log_unavailable_store, sanitize, search,
};
use crate::arguments;

/// The valid values of a memory's importance.
const IMPORTANCE_RANGE: std::ops::RangeInclusive<u8> = 1..=5;
/// The importance of a memory whose call sets none.
const DEFAULT_IMPORTANCE: u8 = 1;

/// Returns the definition of `remember`. Arguments: `{content, category = "fact", importance = 1,
/// shared = false}`. Result: `data = {id, content, category, importance, shared, created_at}`.
///
/// A memory has at most 2,000 characters. There are at most 10,000 memories of one user in one
/// channel, and 10,000 shared memories of a channel. A memory of a call without a user is shared.
pub(super) fn definition() -> ToolDefinition {
    let content = ToolParameter::new("content", ParameterType::String)
        .describe("What to remember, as a sentence that can be understood on its own");
    let categories = MemoryCategory::ALL.map(|category| json!(category.as_str()));
    let category = ToolParameter::new("category", ParameterType::String)
        .describe("The category of the memory: 'fact', 'preference' or 'topic'")
        .default_value(json!(MemoryCategory::Fact.as_str()))
        .one_of(categories);
    let importance = ToolParameter::new("importance", ParameterType::Integer)
        .describe(
            "Importance from 1 (least) to 5 (most); search_memory returns important memories first",
        )
        .default_value(json!(DEFAULT_IMPORTANCE));
    let shared = ToolParameter::new("shared", ParameterType::Boolean)
        .describe("Whether all users of this channel share the memory")
        .default_value(json!(false));
    ToolDefinition::builder(
        "remember",
        "Remember something about this user or this conversation for later.",
    )
    .category("memory")
    .parameters([content, category, importance, shared])
    .build()
    .expect("the definition is constant, and a test builds it")
}

pub(super) async fn run(
    store: Arc<dyn MemoryStore>,
    arguments: JsonObject,
    scope: MemoryScope,
) -> Result<ToolOutput, ToolFailure> {
    let MemoryScope { channel, user } = scope;
    let content = sanitize(arguments::text(&arguments, "content"));
    arguments::check_text("content", &content, MAX_CONTENT_CHARS)?;
    let category = MemoryCategory::from_name(arguments::text(&arguments, "category"));
    let is_shared = arguments.get("shared").and_then(Value::as_bool) == Some(true);
    let now = Timestamp::now();
    let memory = Memory {
        id: Uuid::now_v7().simple().to_string(),
        channel,
        user: user.filter(|_| !is_shared),
        category: category.unwrap_or(MemoryCategory::Fact),
        content,
        importance: parse_importance(arguments.get("importance"))?,
        created_at: now,
        last_accessed_at: now,
    };
    let insert_result = store.insert_memory(&memory, MAX_MEMORIES).await;
    if !insert_result.map_err(|error| log_unavailable_store(&error))? {
        return Err(ToolFailure::invalid_input(format!(
            "The limit of {MAX_MEMORIES} memories is reached: delete memories with the tool \
             forget first"
        )));
    }
    let text = format!("Remembered (id {})", memory.id);
    Ok(ToolOutput::text(text).with_data(search::memory_to_json(&memory)))
}

fn parse_importance(argument: Option<&Value>) -> Result<u8, ToolFailure> {
    let Some(number) = argument else {
        return Ok(DEFAULT_IMPORTANCE);
    };
    // Compares floats, because JSON may contain a whole number as a float.
    IMPORTANCE_RANGE
        .clone()
        .find(|importance| number.as_f64() == Some(f64::from(*importance)))
        .ok_or_else(|| ToolFailure::invalid_input("importance must be from 1 to 5"))
}
