//! Tools that are made of other tools (requirement P): steps one after the other, side by side or
//! on a condition, whose arguments come from the input and from the results of earlier steps.
//!
//! ```
//! use pillion_core::compose::Composition;
//! use serde_json::json;
//! let composition = Composition::parse(json!({
//!     "name": "weather_of",
//!     "description": "The weather at an address",
//!     "input_schema": {"properties": {"address": {"type": "string"}}, "required": ["address"]},
//!     "steps": [
//!         {"name": "place", "tool": "geocode", "arguments": {"text": {"$from": "/input/address"}}},
//!         {"name": "sky", "tool": "get_weather", "arguments": {"location": {"$from": "/steps/place/data/city"}}},
//!     ],
//! }))?;
//! assert_eq!(composition.called_tools(), ["geocode", "get_weather"]);
//! # Ok::<(), pillion_core::compose::ComposeError>(())
//! ```
//!
//! [`Composition`] is what was declared, checked; [`circles`] looks at all compositions together;
//! [`ComposedTool`] runs one. Of these only the last does anything beyond reading, and it calls
//! its tools through [`FurtherCalls`](crate::tool::FurtherCalls) alone.

mod check;
mod circles;
mod condition;
mod entry;
mod error;
mod input;
mod keeper;
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
pub use circles::circles;
pub use error::ComposeError;
pub use input::InputTemplate;
pub use keeper::{KeepFuture, KeptInMemory, KeptSteps, StepKeeper, TakeFuture};
use step::Step;
use template::Template;

/// How many calls a composition may declare, whether or not all are made.
pub const MOST_STEPS: usize = 64;

/// How deep groups of steps may stand in each other, and templates in theirs.
pub const MOST_DEPTH: usize = 8;

/// What a composed tool is made of.
#[derive(Debug, Clone)]
pub struct Composition {
    definition: ToolDefinition,
    steps: Vec<Step>,
    output: Output,
    lends: Vec<String>,
    /// SHA-256 of all that was declared.
    digest: String,
}

/// What a composed tool answers with.
#[derive(Debug, Clone, PartialEq)]
enum Output {
    /// What the step of that name answers with.
    Step(String),
    Template(Template),
}

impl Composition {
    /// Reads and checks a declaration: an object with `name`, `description`, `steps` and, where
    /// they are wanted, `category`, `input_schema`, `output` and `lends`.
    ///
    /// # Errors
    /// [`ComposeError`], which says where in the declaration the fault is.
    pub fn parse(declared: Value) -> Result<Self, ComposeError> {
        let mut canonical = declared.clone();
        canonical.sort_all_objects();
        let digest = sha256_hex(&canonical.to_string());
        entry::read(declared, digest)
    }

    /// The tool's definition.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// The names of the tools that it calls, in the order of its steps, each once.
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

    /// The tools that whoever may use this one may use through it, although not by themselves.
    #[must_use]
    pub fn lends(&self) -> &[String] {
        &self.lends
    }

    /// What stands for all that was declared.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// A [`Composition`] as a tool.
pub struct ComposedTool {
    composition: Composition,
    keeper: Arc<dyn StepKeeper>,
}

impl ComposedTool {
    /// The tool; `keeper` has the results of finished steps while another step waits for an
    /// approval.
    #[must_use]
    pub fn new(composition: Composition, keeper: Arc<dyn StepKeeper>) -> Self {
        Self {
            composition,
            keeper,
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
        Box::pin(
            async move { run::run(&self.composition, &*self.keeper, arguments, context).await },
        )
    }
}
