//! The classes of the namespace `Pillion`, one per file.

pub mod attributes;
pub mod callable_tool;
mod cancellation_token;
pub mod chat_answer;
mod chat_event;
mod chat_stream;
mod client_hooks;
mod dmcp_tool;
mod engine_tool;
pub mod event;
mod interfaces;
mod mcp_client;
pub mod mcp_sse_client;
mod mcp_tool_adapter;
pub mod progress;
mod provider_format;
pub mod sidecar;
mod stream_iterator;
mod token_store;
mod tool_aware_chat;
pub mod tool_call;
pub mod tool_definition;
pub mod tool_executor;
pub mod tool_registry;
pub mod tool_result;
mod tool_stream;

use ext_php_rs::error::Result;

/// Registers all classes, in the order of their dependencies.
pub fn register() -> Result<()> {
    #[cfg(feature = "bench")]
    crate::json::bench::register()?;
    attributes::register()?;
    tool_definition::register()?;
    tool_call::register()?;
    tool_result::register()?;
    interfaces::register()?;
    token_store::register()?;
    progress::register()?;
    cancellation_token::register()?;
    event::register()?;
    mcp_sse_client::register()?;
    tool_stream::register()?;
    mcp_client::register()?;
    mcp_tool_adapter::register()?;
    dmcp_tool::register()?;
    callable_tool::register()?;
    engine_tool::register()?;
    tool_registry::register()?;
    tool_executor::register()?;
    provider_format::register()?;
    sidecar::register()?;
    chat_answer::register()?;
    chat_event::register()?;
    chat_stream::register()?;
    tool_aware_chat::register()
}
