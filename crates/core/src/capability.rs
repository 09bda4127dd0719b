//! Which model may see which tool, and why not (requirements H2 and B4).
//!
//! [`offer`] is a pure function of the tools and a [`ModelConfig`]. The configurations come
//! from JSON, TOML or PHP arrays; HAWKI's model lists are read as they are. Aliases of tool
//! names (H3) are the caller's matter: `enabled_tools` is compared with the tool's own name.
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

/// What [`offer`] decided, each list in the order of the tools that were given.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer<'a> {
    /// The tools that the model may see.
    pub offered: Vec<&'a ToolDefinition>,
    /// The tools that it may not see.
    pub dropped: Vec<Dropped<'a>>,
}

/// A tool that a model may not see. Its `Display` is `name: reason`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropped<'a> {
    /// The tool.
    pub tool: &'a ToolDefinition,
    /// The first rule that it broke.
    pub reason: DropReason,
}

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool.name(), self.reason)
    }
}

/// Why a model may not see a tool, in the order in which the rules are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// `function_calling` is not set: no tool is offered at all.
    #[error("model cannot call functions")]
    CannotCallFunctions,
    /// An MCP tool, and `mcp` is not set.
    #[error("model has no 'mcp' flag")]
    NoMcpFlag,
    /// `enabled_tools` names tools, and this is none of them.
    #[error("not in enabled_tools")]
    NotEnabled,
    /// An MCP tool whose server's URL is empty.
    #[error("MCP server has no URL")]
    ServerWithoutUrl,
}

/// Divides `tools` into those that `model` may see and those that it may not (H2).
///
/// A tool is offered if the model has `function_calling`; and, for an MCP tool, if it also
/// has `mcp` and the server has a URL; and if `enabled_tools` is absent or empty or names
/// the tool.
#[must_use]
pub fn offer<'a>(
    tools: impl IntoIterator<Item = (&'a ToolDefinition, &'a ToolOrigin)>,
    model: &ModelConfig,
) -> Offer<'a> {
    let mut offer = Offer {
        offered: Vec::new(),
        dropped: Vec::new(),
    };
    for (tool, origin) in tools {
        match model.tools.admit(tool.name().as_str(), origin) {
            Ok(()) => offer.offered.push(tool),
            Err(reason) => offer.dropped.push(Dropped { tool, reason }),
        }
    }
    offer
}
