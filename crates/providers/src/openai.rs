//! What OpenAI's Chat Completions API and Responses API have in common.

mod array_items;

use std::borrow::Cow;

use pillion_core::tool::ToolDefinition;
use pillion_schema::strict;
use serde_json::{Value, json};

use crate::ToolChoice;
use crate::offered_tool::OfferedTool;
use array_items::add_items;

/// The base URL of OpenAI.
pub(crate) const BASE_URL: &str = "https://api.openai.com/v1";

/// The members that OpenAI rejects in a request without tools.
pub(crate) const TOOL_MEMBERS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// Maximum length of a tool's description, in characters.
const MAX_DESCRIPTION: usize = 1_024;

/// A tool as OpenAI accepts it.
pub(crate) struct OpenAiTool<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) description: Cow<'a, str>,
    /// The schema of the arguments: in the `strict` form, or with an empty `required` if the tool's
    /// schema has no `required`.
    pub(crate) parameters: Value,
    /// Whether the schema is in the `strict` form.
    pub(crate) is_strict: bool,
}

impl<'a> OpenAiTool<'a> {
    pub(crate) fn new(tool: &'a ToolDefinition) -> Self {
        let OfferedTool {
            mut description,
            mut schema,
            ..
        } = OfferedTool::new(tool);
        add_items(schema.to_mut());
        if let Some((end, _)) = description.char_indices().nth(MAX_DESCRIPTION) {
            let (beginning, rest) = split_at_space(&description, end);
            describe_root(schema.to_mut(), rest);
            description = beginning.to_owned().into();
        }
        let strict_schema = tool.strict().then(|| strict(&schema)).flatten();
        let is_strict = strict_schema.is_some();
        let parameters = strict_schema.unwrap_or_else(|| {
            let mut schema = schema.into_owned();
            if !schema["required"].is_array() {
                schema["required"] = json!([]);
            }
            schema
        });
        Self {
            name: tool.name().short(),
            description,
            parameters,
            is_strict,
        }
    }
}

/// Returns the tool choice in OpenAI's format; `named` creates the form of a choice that names a
/// tool.
pub(crate) fn tool_choice(choice: &ToolChoice, named: impl FnOnce(&str) -> Value) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => named(name),
    }
}

/// Splits a text at the last space before `end`, if there is a space near `end`.
fn split_at_space(text: &str, end: usize) -> (&str, &str) {
    const MAX_WORD_BYTES: usize = 100;
    let space = text[..end].rfind(char::is_whitespace);
    let at = space
        .filter(|space| end - space <= MAX_WORD_BYTES)
        .unwrap_or(end);
    (&text[..at], text[at..].trim_start())
}

/// Adds the rest of a tool's description to the description of its arguments, whose length OpenAI
/// does not limit.
fn describe_root(schema: &mut Value, rest: &str) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    let own = schema.get("description").and_then(Value::as_str);
    let text = match own {
        Some(own) => format!("{rest}\n\n{own}"),
        None => rest.to_owned(),
    };
    schema.insert("description".to_owned(), json!(text));
}
