mod builder;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{InvalidToolName, JsonObject, ToolName, ToolParameter};
use crate::schema::strict;
pub use builder::ToolDefinitionBuilder;

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
    annotations: JsonObject,
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
        ToolDefinitionBuilder::new(name.into(), description.into())
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

    /// How the tool behaves, in the words of MCP: `readOnlyHint` and its kin. Empty unless
    /// somebody has said so.
    #[must_use]
    pub fn annotations(&self) -> &JsonObject {
        &self.annotations
    }

    /// The schema in the nested form of requirement A3:
    /// `{"type": "function", "function": {"name", "description", "parameters"}}`, with
    /// `strict` inside `function` only when it is true: see
    /// [`format_tool`](crate::provider::format_tool).
    #[must_use]
    pub fn to_schema(&self) -> Value {
        let (parameters, is_strict) = self.parameters_for_openai();
        let mut function = json!({
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
        });
        if is_strict {
            function["strict"] = json!(true);
        }
        json!({"type": "function", "function": function})
    }

    /// The schema of the arguments as OpenAI gets it, and whether `strict` may be said of it.
    pub(crate) fn parameters_for_openai(&self) -> (Value, bool) {
        let strict = self.strict.then(|| strict(&self.input_schema)).flatten();
        match strict {
            Some(schema) => (schema, true),
            None => (self.parameters_with_required(), false),
        }
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
