//! What each provider accepts of a tool's definition. The rest is said in another way, or left out:
//! one definition that a provider rejects would fail the whole request.

use std::borrow::Cow;

use pillion_schema::portable;
use serde_json::{Value, json};

use super::array_items::add_items;
use super::property_keys::PropertyKeys;
use super::{Provider, root_schema};
use crate::tool::ToolDefinition;

/// Maximum length of a description for OpenAI, in characters.
const MAX_OPENAI_DESCRIPTION: usize = 1_024;

/// A tool as a provider accepts it.
pub(super) struct OfferedTool<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) description: Cow<'a, str>,
    pub(super) schema: Cow<'a, Value>,
}

impl<'a> OfferedTool<'a> {
    pub(super) fn of(provider: Provider, tool: &'a ToolDefinition) -> Self {
        let (mut schema, note) = match portable(tool.input_schema()) {
            Cow::Borrowed(schema) => root_schema::simplified(schema),
            Cow::Owned(schema) => {
                let (simplified, note) = root_schema::simplified(&schema);
                (Cow::Owned(simplified.into_owned()), note)
            }
        };
        let mut description = Cow::Borrowed(tool.description());
        if let Some(note) = note {
            description = format!("{description}\n\n{note}").into();
        }
        let mut name = Cow::Borrowed(tool.name().as_str());
        match provider {
            Provider::Anthropic => {
                if let Some(keys) = PropertyKeys::of(tool.input_schema()) {
                    schema = Cow::Owned(keys.renamed(&schema));
                }
            }
            Provider::Google => name = tool.name().short(),
            Provider::OpenAiChat | Provider::OpenAiResponses => {
                name = tool.name().short();
                add_items(schema.to_mut());
                let end = description.char_indices().nth(MAX_OPENAI_DESCRIPTION);
                if let Some((end, _)) = end {
                    let (beginning, rest) = split_at_space(&description, end);
                    describe_root(schema.to_mut(), rest);
                    description = beginning.to_owned().into();
                }
            }
        }
        Self {
            name,
            description,
            schema,
        }
    }
}

/// Splits a text at the last space before `end`, if there is one near it.
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
