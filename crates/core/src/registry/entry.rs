use std::fmt;
use std::sync::Arc;

use super::RegistryError;
use crate::tool::{Tool, ToolDefinition, ToolName, ToolOrigin};
use pillion_schema::CompiledSchema;

/// A registered tool with its compiled schema.
pub struct RegisteredTool {
    tool: Arc<dyn Tool>,
    origin: ToolOrigin,
    /// `None` for an MCP tool whose schema cannot be compiled: only its server validates arguments.
    schema: Option<CompiledSchema>,
}

impl RegisteredTool {
    /// Compiles the tool's schema. The tool need not become part of a registry.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`], as in
    /// [`ToolRegistry::register`](super::ToolRegistry::register).
    pub fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        let origin = tool.origin();
        let name = tool.definition().name();
        let schema = match CompiledSchema::compile(tool.definition().input_schema()) {
            Ok(schema) => Some(schema),
            Err(error) if origin.is_mcp() => {
                tracing::warn!(
                    tool.name = %name, %error,
                    "The schema of MCP tool `{name}` cannot be compiled; its arguments are not \
                    validated"
                );
                None
            }
            Err(source) => {
                let name = name.clone();
                return Err(RegistryError::InvalidSchema { name, source });
            }
        };
        Ok(Self {
            tool,
            origin,
            schema,
        })
    }

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        self.definition().name()
    }

    /// Returns the tool's definition.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    /// Returns the tool's origin.
    #[must_use]
    pub fn origin(&self) -> &ToolOrigin {
        &self.origin
    }

    /// Returns whether lists show the tool ([`Tool::is_offered`]).
    #[must_use]
    pub fn is_offered(&self) -> bool {
        self.tool.is_offered()
    }

    /// Returns the tool itself.
    #[must_use]
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Returns the compiled schema of the arguments; `None` for an MCP tool whose schema cannot be
    /// compiled.
    #[must_use]
    pub fn schema(&self) -> Option<&CompiledSchema> {
        self.schema.as_ref()
    }
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredTool")
            .field("definition", self.definition())
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}
