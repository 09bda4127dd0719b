use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{InvalidToolName, ToolName, ToolParameter};

/// Everything a model and the executor need to know of a tool (requirement A2).
///
/// The parameters come either as a list of [`ToolParameter`] or as a raw JSON Schema;
/// both end as one schema, [`input_schema`](Self::input_schema).
///
/// ```
/// use pillion_core::tool::{ParameterType, ToolDefinition, ToolParameter};
/// use serde_json::json;
/// let add = ToolDefinition::builder("add", "Add numbers")
///     .parameter(ToolParameter::new("a", ParameterType::Number))
///     .category("math")
///     .build()?;
/// assert_eq!(add.to_schema()["function"]["parameters"]["required"], json!(["a"]));
/// # Ok::<(), pillion_core::tool::DefinitionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    name: ToolName,
    description: String,
    parameters: Vec<ToolParameter>,
    input_schema: Arc<Value>,
    category: String,
    requires_confirmation: bool,
    cooldown: Duration,
    strict: bool,
}

/// A definition that no tool can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The name does not follow requirement A4.
    #[error(transparent)]
    Name(#[from] InvalidToolName),
    /// The description is empty or blank.
    #[error("{tool}: A tool needs a description")]
    EmptyDescription {
        /// The tool's name.
        tool: ToolName,
    },
    /// Two parameters have one name.
    #[error("{tool}: Duplicate parameter names found")]
    DuplicateParameters {
        /// The tool's name.
        tool: ToolName,
    },
    /// The raw schema is not a JSON object, or is of a type other than `object`.
    #[error("{tool}: The parameters must be a JSON Schema of type object")]
    SchemaNotAnObject {
        /// The tool's name.
        tool: ToolName,
    },
}

impl ToolDefinition {
    /// Starts a definition with the two things that every tool has.
    #[must_use]
    pub fn builder(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> ToolDefinitionBuilder {
        ToolDefinitionBuilder {
            name: name.into(),
            description: description.into(),
            parameters: Vec::new(),
            schema: None,
            category: "general".to_owned(),
            requires_confirmation: false,
            cooldown: Duration::ZERO,
            strict: false,
        }
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// What the tool does, in words for the model.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The parameters as they were given; empty when the definition has a raw schema.
    #[must_use]
    pub fn parameters(&self) -> &[ToolParameter] {
        &self.parameters
    }

    /// The JSON Schema of the arguments, whichever form the parameters were given in.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// The group that the tool is listed under; `general` unless said otherwise.
    #[must_use]
    pub fn category(&self) -> &str {
        &self.category
    }

    /// Whether somebody has to approve each call (G2).
    #[must_use]
    pub fn requires_confirmation(&self) -> bool {
        self.requires_confirmation
    }

    /// How long one user waits between two calls (C6); zero means no wait.
    #[must_use]
    pub fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// Whether a provider should hold the model to the schema exactly.
    #[must_use]
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// The schema in the nested form of requirement A3:
    /// `{"type": "function", "function": {"name", "description", "parameters"}}`, with
    /// `strict` inside `function` only when it is true.
    #[must_use]
    pub fn to_schema(&self) -> Value {
        let mut function = json!({
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters_with_required(),
        });
        if self.strict {
            function["strict"] = json!(true);
        }
        json!({"type": "function", "function": function})
    }

    /// The schema of the arguments with `required`, which a raw schema may lack, in it (A3).
    pub(crate) fn parameters_with_required(&self) -> Value {
        let mut schema = self.input_schema().clone();
        if !schema["required"].is_array() {
            schema["required"] = json!([]);
        }
        schema
    }
}

/// Collects what a [`ToolDefinition`] is made of; [`build`](Self::build) checks it.
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
}

impl ToolDefinitionBuilder {
    /// Adds one parameter after those already there.
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

    /// Takes a raw JSON Schema of type `object` instead of a list of parameters.
    #[must_use]
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Lists the tool under `category`.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.category = category.into();
        self
    }

    /// Asks for an approval of each call.
    #[must_use]
    pub fn requires_confirmation(mut self, yes: bool) -> Self {
        self.requires_confirmation = yes;
        self
    }

    /// Makes one user wait between two calls.
    #[must_use]
    pub fn cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Asks providers to hold the model to the schema exactly.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Checks the parts and puts them together.
    ///
    /// # Errors
    /// [`DefinitionError`]: a bad name, a blank description, two parameters with one name,
    /// or a raw schema that is no object schema (A4).
    pub fn build(self) -> Result<ToolDefinition, DefinitionError> {
        let name = ToolName::new(&self.name)?;
        if self.description.trim().is_empty() {
            return Err(DefinitionError::EmptyDescription { tool: name });
        }
        let mut seen = std::collections::HashSet::new();
        if !self
            .parameters
            .iter()
            .all(|parameter| seen.insert(&parameter.name))
        {
            return Err(DefinitionError::DuplicateParameters { tool: name });
        }
        let input_schema = match self.schema {
            Some(schema) => object_schema(schema)
                .ok_or_else(|| DefinitionError::SchemaNotAnObject { tool: name.clone() })?,
            None => schema_of(&self.parameters),
        };
        Ok(ToolDefinition {
            name,
            description: self.description,
            parameters: self.parameters,
            input_schema: Arc::new(input_schema),
            category: self.category,
            requires_confirmation: self.requires_confirmation,
            cooldown: self.cooldown,
            strict: self.strict,
        })
    }
}

fn schema_of(parameters: &[ToolParameter]) -> Value {
    let properties: serde_json::Map<_, _> = parameters
        .iter()
        .map(|parameter| (parameter.name.clone(), parameter.to_property()))
        .collect();
    let required: Vec<_> = parameters
        .iter()
        .filter(|parameter| parameter.required)
        .map(|parameter| parameter.name.as_str())
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// A raw schema as an object schema: `type` and `properties` are added where they lack.
/// PHP writes an empty map as `[]`, so that stands for `{}` where a map must be.
fn object_schema(schema: Value) -> Option<Value> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        Value::Array(items) if items.is_empty() => serde_json::Map::new(),
        _ => return None,
    };
    match schema.get("type") {
        None => {
            schema.insert("type".to_owned(), json!("object"));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return None,
    }
    match schema.get("properties") {
        Some(Value::Object(_)) => {}
        Some(Value::Array(items)) if !items.is_empty() => return None,
        None | Some(Value::Array(_) | Value::Null) => {
            schema.insert("properties".to_owned(), json!({}));
        }
        Some(_) => return None,
    }
    Some(Value::Object(schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::ParameterType;

    #[test]
    fn a2_both_parameter_forms_give_a_schema() {
        let raw =
            json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
        let definition = ToolDefinition::builder("t", "d")
            .schema(raw.clone())
            .build()
            .unwrap();
        assert_eq!(definition.input_schema(), &raw);
        assert_eq!(definition.category(), "general");
        let from_php = ToolDefinition::builder("t", "d")
            .schema(json!({"type": "object", "properties": []}))
            .build()
            .unwrap();
        assert_eq!(from_php.input_schema()["properties"], json!({}));
    }

    #[test]
    fn a3_falsy_defaults_are_written_and_required_is_always_there() {
        let definition = ToolDefinition::builder("t", "d")
            .parameter(ToolParameter::new("n", ParameterType::Integer).default_value(json!(0)))
            .parameter(ToolParameter::new("b", ParameterType::Boolean).default_value(json!(false)))
            .parameter(ToolParameter::new("s", ParameterType::String).default_value(json!("")))
            .parameter(ToolParameter::new("x", ParameterType::String).optional())
            .build()
            .unwrap();
        let parameters = &definition.to_schema()["function"]["parameters"];
        assert_eq!(parameters["required"], json!([]));
        assert_eq!(
            parameters["properties"]["n"],
            json!({"type": "integer", "default": 0})
        );
        assert_eq!(parameters["properties"]["b"]["default"], json!(false));
        assert_eq!(parameters["properties"]["s"]["default"], json!(""));
        assert_eq!(parameters["properties"]["x"], json!({"type": "string"}));
        assert!(definition.to_schema()["function"].get("strict").is_none());
    }

    #[test]
    fn a3_required_is_there_in_a_raw_schema_as_well() {
        let inner = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        for required in [None, Some(json!(null)), Some(json!([])), Some(json!(["a"]))] {
            let mut raw = json!({"type": "object", "properties": {"a": inner}});
            if let Some(required) = &required {
                raw["required"] = required.clone();
            }
            let definition = ToolDefinition::builder("t", "d").schema(raw).build();
            let parameters = &definition.unwrap().to_schema()["function"]["parameters"];
            let expected = required.filter(Value::is_array).unwrap_or(json!([]));
            assert_eq!(parameters["required"], expected);
            // What is inside stays as it was written.
            assert_eq!(parameters["properties"]["a"], inner);
        }
    }

    #[test]
    fn a4_bad_definitions_are_refused() {
        let twice = ToolDefinition::builder("X", "d")
            .parameter(ToolParameter::new("a", ParameterType::String))
            .parameter(ToolParameter::new("a", ParameterType::String))
            .build();
        assert_eq!(
            twice.unwrap_err().to_string(),
            "X: Duplicate parameter names found"
        );
        assert!(ToolDefinition::builder("", "d").build().is_err());
        assert!(ToolDefinition::builder("t", " ").build().is_err());
        assert!(
            ToolDefinition::builder("t", "d")
                .schema(json!({"type": "string"}))
                .build()
                .is_err()
        );
        assert!(
            ToolDefinition::builder("t", "d")
                .schema(json!("x"))
                .build()
                .is_err()
        );
    }
}
