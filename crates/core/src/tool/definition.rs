mod builder;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{InvalidToolName, JsonObject, ToolName, ToolParameter};
pub use builder::ToolDefinitionBuilder;

/// Everything that a model and the executor need to know about a tool.
///
/// The parameters are either a list of [`ToolParameter`] or a raw JSON Schema. Both become one
/// schema, [`input_schema`](Self::input_schema).
///
/// ```
/// use pillion_core::tool::{ParameterType, ToolDefinition, ToolParameter};
/// use serde_json::json;
/// let add = ToolDefinition::builder("add", "Add numbers")
///     .parameter(ToolParameter::new("a", ParameterType::Number))
///     .category("math")
///     .build()?;
/// assert_eq!(add.input_schema()["required"], json!(["a"]));
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

/// Why a definition is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The name is not a valid tool name.
    #[error(transparent)]
    Name(#[from] InvalidToolName),
    /// The description is empty or blank.
    #[error("{tool}: A tool needs a description")]
    EmptyDescription {
        /// The name of the tool without a description.
        tool: ToolName,
    },
    /// Two parameters have the same name.
    #[error("{tool}: Duplicate parameter names found")]
    DuplicateParameters {
        /// The name of the tool with the parameters.
        tool: ToolName,
    },
    /// The raw schema is not a JSON object, or its type is not `object`.
    #[error("{tool}: The parameters must be a JSON Schema of type object")]
    SchemaNotAnObject {
        /// The name of the tool with the schema.
        tool: ToolName,
    },
}

impl ToolDefinition {
    /// Starts a definition with its required parts.
    #[must_use]
    pub fn builder(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> ToolDefinitionBuilder {
        ToolDefinitionBuilder::new(name.into(), description.into())
    }

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Returns the tool's description for the model.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the parameters; empty if the definition has a raw schema.
    #[must_use]
    pub fn parameters(&self) -> &[ToolParameter] {
        &self.parameters
    }

    /// Returns the JSON Schema of the arguments, whether the definition has a list of parameters or
    /// a raw schema.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// Returns [`input_schema`](Self::input_schema), shared with this definition.
    #[must_use]
    pub fn shared_input_schema(&self) -> Arc<Value> {
        Arc::clone(&self.input_schema)
    }

    /// Returns the category under which the tool is listed; default `general`.
    #[must_use]
    pub fn category(&self) -> &str {
        &self.category
    }

    /// Returns whether each call needs approval.
    #[must_use]
    pub fn requires_confirmation(&self) -> bool {
        self.requires_confirmation
    }

    /// Returns how long a user has to wait between two calls; zero means no wait.
    #[must_use]
    pub fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// Returns whether providers should enforce the schema exactly.
    #[must_use]
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// Returns the MCP tool annotations, such as `readOnlyHint`; empty by default.
    #[must_use]
    pub fn annotations(&self) -> &JsonObject {
        &self.annotations
    }
}
