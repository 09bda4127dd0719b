//! Decides which tools a model gets, and reports why other tools are dropped.
//!
//! [`offer`] is a pure function of the tools and a [`ModelConfig`]. Configurations come from JSON,
//! TOML or PHP arrays; HAWKI's model lists are supported unchanged. `enabled_tools` is compared
//! with the name of the tool, not with aliases: callers must resolve aliases.
//!
//! ```
//! use pillion_core::capability::{ModelConfig, offer};
//! use pillion_core::tool::{ToolDefinition, ToolOrigin};
//!
//! let dice = ToolDefinition::builder("dmcp_roll_dice", "Rolls dice").build()?;
//! let dmcp = ToolOrigin::Mcp {
//!     server_label: "dmcp".into(),
//!     server_url: "https://dmcp-server.deno.dev/sse".into(),
//! };
//! let test = ToolDefinition::builder("test_tool", "Answers").build()?;
//!
//! // A GWDG model: it can call functions, and has no `mcp` flag.
//! let gwdg = ModelConfig::from_toml(r#"
//!     id = "meta-llama-3.1-8b-instruct"
//!     [tools]
//!     function_calling = true
//! "#)?;
//! let offer = offer([(&dice, &dmcp), (&test, &ToolOrigin::Native)], &gwdg);
//! assert_eq!(offer.offered, [&test]);
//! assert_eq!(offer.dropped[0].to_string(), "dmcp_roll_dice: model has no 'mcp' flag");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod model;
mod reader;
#[cfg(test)]
mod tests;

pub use error::ModelConfigError;
pub use model::{ModelConfig, ToolCapabilities};

use std::fmt;

use crate::tool::{ToolDefinition, ToolOrigin};

/// The decision of [`offer`]; each list is in the order in which the tools were passed to `offer`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSelection<'a> {
    /// The tools that the model gets.
    pub offered: Vec<&'a ToolDefinition>,
    /// The tools that the model does not get.
    pub dropped: Vec<DroppedTool<'a>>,
}

/// A tool that a model does not get. `Display` prints `name: reason`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DroppedTool<'a> {
    /// The definition of the dropped tool.
    pub tool: &'a ToolDefinition,
    /// The first rule that the tool violates.
    pub reason: DropReason,
}

impl fmt::Display for DroppedTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool.name(), self.reason)
    }
}

/// Why a model does not get a tool, in the order in which the rules are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// `function_calling` is not set: the model gets no tools.
    #[error("model cannot call functions")]
    CannotCallFunctions,
    /// The tool is an MCP tool, and `mcp` is not set.
    #[error("model has no 'mcp' flag")]
    NoMcpFlag,
    /// `enabled_tools` is not empty and does not contain the tool.
    #[error("not in enabled_tools")]
    NotEnabled,
    /// The tool is an MCP tool whose server has no URL.
    #[error("MCP server has no URL")]
    ServerWithoutUrl,
}

/// Divides `tools` into those that `model` gets and those that it does not.
///
/// A model gets a tool if all of these conditions are met:
///
/// - The model has `function_calling`.
/// - The tool is native, or the model has `mcp` and the tool's server has a URL.
/// - `enabled_tools` is absent, empty or contains the tool.
#[must_use]
pub fn offer<'a>(
    tools: impl IntoIterator<Item = (&'a ToolDefinition, &'a ToolOrigin)>,
    model: &ModelConfig,
) -> ToolSelection<'a> {
    let mut selection = ToolSelection {
        offered: Vec::new(),
        dropped: Vec::new(),
    };
    for (tool, origin) in tools {
        match model.tools.admit(tool.name().as_str(), origin) {
            Ok(()) => selection.offered.push(tool),
            Err(reason) => selection.dropped.push(DroppedTool { tool, reason }),
        }
    }
    selection
}
