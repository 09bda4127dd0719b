//! Pillion's engine: tools, the tool registry, the executor that runs tool calls, and the capability
//! filter that decides which tools a model gets.
//!
//! A [`ToolCall`](tool::ToolCall) goes through the stages of the [`Executor`](executor::Executor),
//! which finds the tool in a [`ToolRegistry`](registry::ToolRegistry), runs the tool, and returns
//! exactly one [`ToolResult`](tool::ToolResult).
//!
//! ```
//! use std::sync::Arc;
//! use pillion_core::executor::{Executor, ExecutorConfig};
//! use pillion_core::registry::ToolRegistry;
//! use pillion_core::tool::{CallContext, FnTool, ParameterType, ToolCall, ToolDefinition, ToolOutput, ToolParameter};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Arc::new(ToolRegistry::new());
//! let greet = ToolDefinition::builder("greet", "Greet someone")
//!     .parameter(ToolParameter::new("name", ParameterType::String))
//!     .build()?;
//! registry.register(Arc::new(FnTool::new(greet, |arguments, _context| async move {
//!     let name = arguments["name"].as_str().unwrap_or_default().to_owned();
//!     Ok(ToolOutput::text(format!("Hello, {name}")))
//! })))?;
//!
//! let executor = Executor::new(registry, ExecutorConfig::default());
//! let call = ToolCall::new("call_1", "greet", json!({"name": "Ada"}));
//! let result = executor.execute_one(call, &CallContext::default()).await;
//! assert_eq!(result.to_message(), "Hello, Ada");
//! # Ok(()) }
//! ```
//!
//! The types of `tool` and the records of `store` are plain data. `capability` does no I/O;
//! `executor` does.

mod bidi;
mod call_id;
pub mod capability;
pub mod compose;
pub mod digest;
pub mod executor;
mod hidden_text;
pub mod job_channel;
mod json_error;
pub mod pack;
pub mod registry;
mod repeat_limit;
mod similar_name;
pub mod store;
#[cfg(test)]
mod tests;
mod timestamp;
pub mod tool;
pub mod variable;

pub use bidi::is_bidi_control;
pub use hidden_text::{
    escape_line, is_control_character, is_hidden, is_invisible, is_tag_character, truncated,
};
pub use json_error::{is_lone_surrogate, json_error_text};
pub use pillion_schema::{compute, json_values, lone_surrogates};
pub use repeat_limit::RepeatLimit;
pub use similar_name::similar_name;
