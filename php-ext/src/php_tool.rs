//! Tools that are PHP code, seen from the engine.

use std::sync::Arc;

use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolOrigin,
};

use crate::switchboard::{Run, Switchboard, Work, gone};
use crate::wait::Job;

/// A tool whose work is done by the PHP thread that waits for the call. The PHP object
/// itself stays in the registry's `$tools`.
pub struct PhpTool {
    definition: ToolDefinition,
    origin: ToolOrigin,
    switchboard: Arc<Switchboard>,
}

impl PhpTool {
    /// A tool of that definition; the registry finds the PHP object by its name.
    pub fn new(
        definition: ToolDefinition,
        origin: ToolOrigin,
        switchboard: Arc<Switchboard>,
    ) -> Self {
        Self {
            definition,
            origin,
            switchboard,
        }
    }
}

impl Tool for PhpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let name = self.definition.name().as_str();
            let line = self.switchboard.find(&context).ok_or_else(|| {
                ToolFailure::new(
                    ErrorCode::Unavailable,
                    format!("Tool '{name}' is PHP code, and no PHP thread waits for this call"),
                )
            })?;
            let (job, answer) = Job::new(Run {
                tool: name.to_owned(),
                arguments,
                call_id: context.call_id,
            });
            line.send(Work::Run(job));
            let cancelled = |_| Err(gone(&format!("Tool '{name}'")));
            answer.await.unwrap_or_else(cancelled)
        })
    }
}
