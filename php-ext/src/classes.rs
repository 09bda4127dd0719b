//! The classes of the namespace `Pillion`, one in a file.

pub mod callable_tool;
mod dmcp_tool;
mod engine_tool;
mod interfaces;
pub mod mcp_sse_client;
mod mcp_tool_adapter;
mod provider_format;
mod sidecar;
mod tool_call;
mod tool_definition;
mod tool_executor;
pub mod tool_registry;
pub mod tool_result;

use ext_php_rs::error::Result;

/// Registers them all, each after those it refers to.
pub fn register() -> Result<()> {
    #[cfg(feature = "bench")]
    crate::json::bench::register()?;
    tool_definition::register()?;
    tool_call::register()?;
    tool_result::register()?;
    interfaces::register()?;
    mcp_sse_client::register()?;
    mcp_tool_adapter::register()?;
    dmcp_tool::register()?;
    callable_tool::register()?;
    engine_tool::register()?;
    tool_registry::register()?;
    tool_executor::register()?;
    provider_format::register()?;
    sidecar::register()
}
