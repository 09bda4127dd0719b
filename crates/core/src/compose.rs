//! Composed tools: tools that call other tools in steps, sequentially, in parallel or
//! conditionally. The arguments of a step come from the input and from the results of earlier
//! steps.
//!
//! ```
//! use pillion_core::compose::Composition;
//! use serde_json::json;
//! let composition = Composition::parse(json!({
//!     "name": "weather_of",
//!     "description": "The weather at an address",
//!     "input_schema": {"properties": {"address": {"type": "string"}}, "required": ["address"]},
//!     "steps": [
//!         {
//!             "name": "place", "tool": "geocode",
//!             "arguments": {"text": {"$from": "/input/address"}},
//!         },
//!         {
//!             "name": "sky", "tool": "get_weather",
//!             "arguments": {"location": {"$from": "/steps/place/data/city"}},
//!         },
//!     ],
//! }))?;
//! assert_eq!(composition.called_tools(), ["geocode", "get_weather"]);
//! # Ok::<(), pillion_core::compose::ComposeError>(())
//! ```
//!
//! [`Composition`] is a validated declaration, [`check_cycles`] checks several compositions for
//! recursion, and [`ComposedTool`] runs one. A composed tool calls its tools through
//! [`NestedCallHandle`](crate::tool::NestedCallHandle) only.

mod check;
mod checkpoint;
mod condition;
mod cycles;
mod entry;
mod error;
mod input;
mod pointer;
mod run;
mod step;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use crate::digest::sha256_hex;
use crate::tool::{CallContext, JsonObject, Tool, ToolDefinition, ToolFuture};
pub use checkpoint::{
    CheckpointSaveFuture, CheckpointStore, CheckpointTakeFuture, MemoryCheckpoints, StepCheckpoint,
};
pub use cycles::check_cycles;
pub use error::ComposeError;
pub use input::InputTemplate;
use step::Step;
use template::Template;

/// Maximum number of calls that a composition may declare, even if a run makes only some of them.
pub const MAX_STEPS: usize = 64;

/// Maximum nesting of step groups and of conditions. Templates may be nested four times as deeply.
pub const MAX_DEPTH: usize = 8;

/// The declaration of a composed tool.
#[derive(Debug, Clone)]
pub struct Composition {
    definition: ToolDefinition,
    steps: Vec<Step>,
    output: CompositionOutput,
    grants: Vec<String>,
    /// SHA-256 of the whole declaration, in hexadecimal digits.
    digest: String,
}

/// What a composed tool returns.
#[derive(Debug, Clone, PartialEq)]
enum CompositionOutput {
    /// The output is the result of the step with this name.
    Step(String),
    Template(Template),
}

impl Composition {
    /// Parses and validates a declaration: an object with `name`, `description`, `steps`, and
    /// optionally `category`, `input_schema`, `output` and `grants`.
    ///
    /// # Errors
    /// The declaration is invalid, exceeds a limit, or a step refers to a step that does not run
    /// before it.
    pub fn parse(declaration: Value) -> Result<Self, ComposeError> {
        let mut canonical_declaration = declaration.clone();
        canonical_declaration.sort_all_objects();
        let digest = sha256_hex(&canonical_declaration.to_string());
        entry::read(declaration, digest)
    }

    /// Returns the tool's definition.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the distinct names of the called tools, in the order of the steps.
    #[must_use]
    pub fn called_tools(&self) -> Vec<&str> {
        let mut tools = Vec::new();
        step::for_each_call(&self.steps, &mut |call| {
            if !tools.contains(&call.tool.as_str()) {
                tools.push(call.tool.as_str());
            }
        });
        tools
    }

    /// Returns the tools that this tool may call even if its caller may not call them directly.
    #[must_use]
    pub fn grants(&self) -> &[String] {
        &self.grants
    }

    /// Returns the SHA-256 of the whole declaration, in hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// A [`Composition`] as a [`Tool`].
pub struct ComposedTool {
    composition: Composition,
    checkpoints: Arc<dyn CheckpointStore>,
}

impl ComposedTool {
    /// Creates the tool. `checkpoints` stores the results of finished steps while another step
    /// waits for an approval.
    #[must_use]
    pub fn new(composition: Composition, checkpoints: Arc<dyn CheckpointStore>) -> Self {
        Self {
            composition,
            checkpoints,
        }
    }
}

impl Tool for ComposedTool {
    fn definition(&self) -> &ToolDefinition {
        &self.composition.definition
    }

    fn digest(&self) -> Option<String> {
        Some(self.composition.digest.clone())
    }

    fn makes_calls(&self) -> bool {
        true
    }

    fn called_tools(&self) -> Vec<&str> {
        self.composition.called_tools()
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            run::run(&self.composition, &*self.checkpoints, arguments, context).await
        })
    }
}
