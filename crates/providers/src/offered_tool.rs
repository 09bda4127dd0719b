//! Reduces a tool's definition to what all providers accept. Everything else is expressed in
//! another way or omitted: one definition that a provider rejects would fail the whole request.

mod root_schema;

use std::borrow::Cow;

use pillion_core::tool::ToolDefinition;
use pillion_schema::to_portable_schema;
use serde_json::Value;

/// A tool in a form that all providers accept. Each provider's module makes the changes that only
/// this provider requires.
pub(crate) struct OfferedTool<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) description: Cow<'a, str>,
    pub(crate) schema: Cow<'a, Value>,
}

impl<'a> OfferedTool<'a> {
    pub(crate) fn new(tool: &'a ToolDefinition) -> Self {
        let (schema, note) = match to_portable_schema(tool.input_schema()) {
            Cow::Borrowed(schema) => root_schema::simplify_root(schema),
            Cow::Owned(schema) => {
                let (simple_schema, note) = root_schema::simplify_root(&schema);
                (Cow::Owned(simple_schema.into_owned()), note)
            }
        };
        let description = match note {
            Some(note) => format!("{}\n\n{note}", tool.description()).into(),
            None => tool.description().into(),
        };
        Self {
            name: tool.name().as_str().into(),
            description,
            schema,
        }
    }
}
