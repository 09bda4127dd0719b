use std::fmt;
use std::sync::Arc;

use super::RegistryError;
use crate::schema::CompiledSchema;
use crate::tool::{Tool, ToolDefinition, ToolName, ToolOrigin};

/// A tool in a registry, with its schema compiled.
pub struct RegisteredTool {
    tool: Arc<dyn Tool>,
    origin: ToolOrigin,
    /// None for an MCP tool whose schema cannot be compiled: its server validates alone.
    schema: Option<CompiledSchema>,
}

impl RegisteredTool {
    /// A tool with its schema compiled, for a registry or for one that is in none.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`], as for
    /// [`ToolRegistry::register`](super::ToolRegistry::register).
    pub fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        let origin = tool.origin();
        let name = tool.definition().name();
        let schema = match CompiledSchema::compile(tool.definition().input_schema()) {
            Ok(schema) => Some(schema),
            Err(error) if origin.is_mcp() => {
                tracing::warn!(
                    tool.name = %name, %error,
                    "The schema of MCP tool `{name}` cannot be compiled; its arguments go unchecked"
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

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        self.definition().name()
    }

    /// The tool's definition.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    /// Where the tool comes from.
    #[must_use]
    pub fn origin(&self) -> &ToolOrigin {
        &self.origin
    }

    /// Whether lists show the tool ([`Tool::is_offered`]).
    #[must_use]
    pub fn is_offered(&self) -> bool {
        self.tool.is_offered()
    }

    /// The tool itself.
    #[must_use]
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// The compiled schema of the arguments; none for an MCP tool whose schema this
    /// machine cannot compile.
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
