//! Code that OpenAI's Chat Completions API and Responses API have in common.

mod array_items;

use std::borrow::Cow;

use pillion_core::tool::ToolDefinition;
use pillion_schema::to_strict_schema;
use serde_json::{Value, json};

use crate::ToolChoice;
use crate::offered_tool::OfferedTool;
use array_items::add_items;

pub(crate) const BASE_URL: &str = "https://api.openai.com/v1";

/// The members that OpenAI rejects in a request without tools.
pub(crate) const TOOL_MEMBERS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// Maximum length of a tool's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// A tool in a form that OpenAI accepts.
pub(crate) struct OpenAiTool<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) description: Cow<'a, str>,
    /// The schema of the arguments, in the `strict` form if `is_strict` is true. Always has a
    /// member `required`, possibly empty.
    pub(crate) parameters: Value,
    /// Whether the schema is in the `strict` form.
    pub(crate) is_strict: bool,
}

impl<'a> OpenAiTool<'a> {
    pub(crate) fn new(tool: &'a ToolDefinition) -> Self {
        let mut offered_tool = OfferedTool::new(tool);
        add_items(offered_tool.schema.to_mut());
        let mut char_indices = offered_tool.description.char_indices();
        if let Some((end, _)) = char_indices.nth(MAX_DESCRIPTION_CHARS) {
            let (beginning, rest) = split_at_space(&offered_tool.description, end);
            describe_root(offered_tool.schema.to_mut(), rest);
            offered_tool.description = beginning.to_owned().into();
        }
        let strict_schema = tool
            .strict()
            .then(|| to_strict_schema(&offered_tool.schema))
            .flatten();
        let is_strict = strict_schema.is_some();
        let parameters = strict_schema.unwrap_or_else(|| {
            let mut schema = offered_tool.schema.into_owned();
            if !schema["required"].is_array() {
                schema["required"] = json!([]);
            }
            schema
        });
        Self {
            name: tool.name().short(),
            description: offered_tool.description,
            parameters,
            is_strict,
        }
    }
}

/// Returns the tool choice in OpenAI's format; `to_named_choice` creates the form of a choice that
/// names a tool.
pub(crate) fn tool_choice(
    choice: &ToolChoice,
    to_named_choice: impl FnOnce(&str) -> Value,
) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => to_named_choice(name),
    }
}

/// Splits a text at the last space before `end_index`, if there is a space near `end_index`.
fn split_at_space(text: &str, end_index: usize) -> (&str, &str) {
    const MAX_WORD_BYTES: usize = 100;
    let space_index = text[..end_index].rfind(char::is_whitespace);
    let is_near = |index: &usize| end_index - index <= MAX_WORD_BYTES;
    let split_index = space_index.filter(is_near).unwrap_or(end_index);
    (&text[..split_index], text[split_index..].trim_start())
}

/// Adds the rest of a tool's description to the description of its arguments, whose length OpenAI
/// does not limit.
fn describe_root(schema: &mut Value, remaining_description: &str) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    let root_description = schema.get("description").and_then(Value::as_str);
    let text = match root_description {
        Some(root_description) => format!("{remaining_description}\n\n{root_description}"),
        None => remaining_description.to_owned(),
    };
    schema.insert("description".to_owned(), json!(text));
}
