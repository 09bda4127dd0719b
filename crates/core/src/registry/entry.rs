use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::RegistryError;
use crate::tool::{JsonObject, Tool, ToolDefinition, ToolName, ToolOrigin};
use pillion_schema::{LazySchema, PropertyKeys, SchemaError};
use serde_json::Value;

/// Maximum time for checking the schemas of one list of tools. After this time, each unchecked
/// schema is checked when its tool is first called.
const MAX_LIST_CHECK_TIME: Duration = Duration::from_secs(5);

/// The time limit for checking the schemas of one list of tools, so that a long list of expensive
/// schemas does not occupy a processor.
#[derive(Debug, Clone, Copy)]
pub struct SchemaCheckTime {
    deadline: Instant,
}

impl SchemaCheckTime {
    /// Returns the time limit of a list whose check starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            deadline: Instant::now() + MAX_LIST_CHECK_TIME,
        }
    }
}

/// A registered tool with the schema of its arguments.
pub struct RegisteredTool {
    tool: Arc<dyn Tool>,
    origin: ToolOrigin,
    schema: Arc<ArgumentSchema>,
    /// The properties that are renamed for some models; computed when first needed.
    property_keys: Arc<OnceLock<Option<PropertyKeys>>>,
    expected_output_bytes: AtomicUsize,
}

/// How the arguments of a tool are validated.
enum ArgumentSchema {
    Lazy(LazySchema),
    /// The schema of an MCP tool is invalid: only its server validates the arguments.
    Invalid,
    /// The schema of an MCP tool exceeds a limit: calls are rejected.
    TooLarge(SchemaError),
}

impl RegisteredTool {
    /// Checks the tool's schema and compiles it. A schema with costly patterns is compiled only
    /// when the tool is first called. The tool need not become part of a registry.
    ///
    /// # Errors
    /// The schema of a native tool cannot be compiled. (An MCP tool with such a schema is accepted.)
    pub fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        Self::with_schema(tool, LazySchema::check)
    }

    /// Checks a tool of a list like [`new`](Self::new). If `time` has elapsed, the tool's schema is
    /// not checked now but by the first call of the tool.
    ///
    /// # Errors
    /// The same errors as [`new`](Self::new).
    pub fn for_list(tool: Arc<dyn Tool>, time: SchemaCheckTime) -> Result<Self, RegistryError> {
        if Instant::now() < time.deadline {
            return Self::new(tool);
        }
        Self::with_schema(tool, |schema, account| {
            Ok(LazySchema::unchecked(schema, account))
        })
    }

    fn with_schema(
        tool: Arc<dyn Tool>,
        check: impl FnOnce(Arc<Value>, &str) -> Result<LazySchema, SchemaError>,
    ) -> Result<Self, RegistryError> {
        let origin = tool.origin();
        let definition = tool.definition();
        let name = definition.name();
        let account = origin.server_label().unwrap_or_default();
        let schema = match check(definition.shared_input_schema(), account) {
            Ok(schema) => ArgumentSchema::Lazy(schema),
            Err(error) if origin.is_mcp() && error.exceeds_limit() => {
                tracing::warn!(
                    tool.name = %name, %error,
                    "The schema of MCP tool `{name}` exceeds a limit; its calls are rejected"
                );
                ArgumentSchema::TooLarge(error)
            }
            Err(error) if origin.is_mcp() => {
                tracing::warn!(
                    tool.name = %name, %error,
                    "The schema of MCP tool `{name}` cannot be compiled; its arguments are not \
                    validated"
                );
                ArgumentSchema::Invalid
            }
            Err(source) => {
                let name = name.clone();
                return Err(RegistryError::InvalidSchema { name, source });
            }
        };
        Ok(Self {
            tool,
            origin,
            schema: Arc::new(schema),
            property_keys: Arc::default(),
            expected_output_bytes: AtomicUsize::new(0),
        })
    }

    /// Returns `tool` with the checked schema of this tool. `tool` must have the origin and the
    /// definition of this tool.
    #[must_use]
    pub fn with_tool(&self, tool: Arc<dyn Tool>) -> Self {
        Self {
            tool,
            origin: self.origin.clone(),
            schema: Arc::clone(&self.schema),
            property_keys: Arc::clone(&self.property_keys),
            expected_output_bytes: AtomicUsize::new(self.expected_output_bytes()),
        }
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

    /// Returns the tool's origin: an MCP server, or native.
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

    /// Returns the schema of the arguments. `None` for an MCP tool whose schema is invalid: its
    /// arguments are not validated.
    ///
    /// # Errors
    /// The schema exceeds a limit: the tool cannot be called.
    pub fn schema(&self) -> Result<Option<&LazySchema>, &SchemaError> {
        match &*self.schema {
            ArgumentSchema::Lazy(schema) => Ok(Some(schema)),
            ArgumentSchema::Invalid => Ok(None),
            ArgumentSchema::TooLarge(error) => Err(error),
        }
    }

    /// Restores the original property names in a model's arguments, if some properties are renamed
    /// for models.
    pub(crate) fn restore_property_keys(&self, arguments: &mut JsonObject) {
        let keys = self
            .property_keys
            .get_or_init(|| PropertyKeys::new(self.definition().input_schema()));
        if let Some(keys) = keys {
            keys.restore(arguments);
        }
    }

    /// Returns why calls of the tool are rejected: its schema exceeds a limit, or a call has shown
    /// that the schema is invalid. Calls of an MCP tool with an invalid schema are not rejected.
    #[must_use]
    pub fn schema_fault(&self) -> Option<&SchemaError> {
        match &*self.schema {
            ArgumentSchema::Lazy(schema) => schema
                .error()
                .filter(|error| error.exceeds_limit() || !self.origin.is_mcp()),
            ArgumentSchema::Invalid => None,
            ArgumentSchema::TooLarge(error) => Some(error),
        }
    }

    /// Returns the expected size of the next output, in bytes, estimated from earlier outputs.
    pub(crate) fn expected_output_bytes(&self) -> usize {
        self.expected_output_bytes.load(Ordering::Relaxed)
    }

    /// Records the size of an output. The expected size falls slowly after a large output.
    pub(crate) fn record_output_bytes(&self, bytes: usize) {
        let expected_bytes = bytes.max(self.expected_output_bytes() / 4 * 3);
        self.expected_output_bytes
            .store(expected_bytes, Ordering::Relaxed);
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
