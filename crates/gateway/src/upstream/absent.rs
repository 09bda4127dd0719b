use std::sync::Arc;

use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolName,
    ToolOrigin,
};
use pillion_wire::UnavailableServer;

/// A tool of an unavailable server, of which only the name is known.
#[derive(Debug)]
pub struct UnavailableTool {
    /// The origin that the tool would have.
    pub origin: ToolOrigin,
    /// The server, and why it is unavailable.
    pub server: UnavailableServer,
}

impl UnavailableTool {
    /// Returns the reason why the tool with this name cannot be called.
    pub fn reason(&self, name: &str) -> String {
        let UnavailableServer { label, error } = &self.server;
        format!("Tool '{name}' cannot be called: MCP server '{label}' is unavailable: {error}")
    }

    /// Returns a tool with this name whose calls fail with the reason, so that a composed tool
    /// reports the reason; `None` if the name is invalid.
    pub(super) fn to_tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let name = ToolName::new(name).ok()?;
        let reason = self.reason(name.as_str());
        let definition = ToolDefinition::builder(name.as_str(), "A tool that is not available");
        Some(Arc::new(AbsentTool {
            definition: definition.build().ok()?,
            origin: self.origin.clone(),
            reason,
        }))
    }
}

struct AbsentTool {
    definition: ToolDefinition,
    origin: ToolOrigin,
    reason: String,
}

impl Tool for AbsentTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    fn is_offered(&self) -> bool {
        false
    }

    fn call(self: Arc<Self>, _: JsonObject, _: CallContext) -> ToolFuture {
        let failure = ToolFailure::new(ErrorCode::Unavailable, self.reason.clone());
        Box::pin(async move { Err(failure) })
    }
}
