use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{DefinitionError, ToolDefinition};
use crate::tool::{JsonObject, ToolName, ToolParameter};
use pillion_schema::{coerce_defaults, repair};

/// Builds a [`ToolDefinition`]; [`build`](Self::build) validates it.
#[derive(Debug, Clone)]
pub struct ToolDefinitionBuilder {
    name: String,
    description: String,
    parameters: Vec<ToolParameter>,
    schema: Option<Value>,
    category: String,
    requires_confirmation: bool,
    cooldown: Duration,
    strict: bool,
    annotations: JsonObject,
}

impl ToolDefinitionBuilder {
    pub(super) fn new(name: String, description: String) -> Self {
        Self {
            name,
            description,
            parameters: Vec::new(),
            schema: None,
            category: "general".to_owned(),
            requires_confirmation: false,
            cooldown: Duration::ZERO,
            strict: false,
            annotations: JsonObject::new(),
        }
    }

    /// Adds one parameter at the end.
    #[must_use]
    pub fn parameter(mut self, parameter: ToolParameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Adds several parameters.
    #[must_use]
    pub fn parameters(mut self, parameters: impl IntoIterator<Item = ToolParameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// Sets a raw JSON Schema of type `object`, which replaces a list of parameters. The schema is
    /// [repaired](repair()).
    #[must_use]
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets the category under which the tool is listed.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.category = category.into();
        self
    }

    /// Sets whether each call needs approval.
    #[must_use]
    pub fn requires_confirmation(mut self, requires_confirmation: bool) -> Self {
        self.requires_confirmation = requires_confirmation;
        self
    }

    /// Sets how long a user has to wait between two calls.
    #[must_use]
    pub fn cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Sets whether providers should enforce the schema exactly.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets the MCP tool annotations, such as `readOnlyHint`.
    #[must_use]
    pub fn annotations(mut self, annotations: JsonObject) -> Self {
        self.annotations = annotations;
        self
    }

    /// Validates the parts and returns the definition.
    ///
    /// # Errors
    /// [`DefinitionError`] for an invalid name, a blank description, two parameters with the same
    /// name, or a raw schema that is not an object schema.
    pub fn build(self) -> Result<ToolDefinition, DefinitionError> {
        let name = ToolName::new(&self.name)?;
        if self.description.trim().is_empty() {
            return Err(DefinitionError::EmptyDescription { tool: name });
        }
        let mut seen_names = std::collections::HashSet::new();
        let mut names = self.parameters.iter().map(|parameter| &parameter.name);
        if !names.all(|name| seen_names.insert(name)) {
            return Err(DefinitionError::DuplicateParameters { tool: name });
        }
        let mut input_schema = match self.schema {
            Some(mut schema) => {
                repair(&mut schema);
                to_object_schema(schema)
                    .ok_or_else(|| DefinitionError::SchemaNotAnObject { tool: name.clone() })?
            }
            None => build_schema(&self.parameters),
        };
        coerce_defaults(&mut input_schema);
        Ok(ToolDefinition {
            name,
            description: self.description,
            parameters: self.parameters,
            input_schema: Arc::new(input_schema),
            category: self.category,
            requires_confirmation: self.requires_confirmation,
            cooldown: self.cooldown,
            strict: self.strict,
            annotations: self.annotations,
        })
    }
}

fn build_schema(parameters: &[ToolParameter]) -> Value {
    let to_member = |parameter: &ToolParameter| (parameter.name.clone(), parameter.to_property());
    let properties: JsonObject = parameters.iter().map(to_member).collect();
    let required = parameters.iter().filter(|parameter| parameter.required);
    let names: Vec<_> = required.map(|parameter| parameter.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

/// Converts a repaired schema to an object schema: adds missing `type` and `properties`. `[]` is
/// PHP's encoding of an empty schema.
fn to_object_schema(schema: Value) -> Option<Value> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        Value::Array(items) if items.is_empty() => serde_json::Map::new(),
        _ => return None,
    };
    if *schema.entry("type").or_insert(json!("object")) != "object" {
        return None;
    }
    if !schema.entry("properties").or_insert(json!({})).is_object() {
        return None;
    }
    Some(Value::Object(schema))
}
