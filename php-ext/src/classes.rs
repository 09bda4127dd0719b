//! The PHP classes of registries, chats, the sidecar and provider formats, one per file, and the
//! registration of all classes.

mod chat_answer;
mod chat_event;
mod chat_stream;
mod provider_format;
mod sidecar;
mod tool_aware_chat;
mod tool_registry;

use ext_php_rs::error::Result;

use crate::clients::{cancellation_token, mcp_client, mcp_sse_client, tool_stream};
use crate::execution::tool_executor;
use crate::signature::attributes;
use crate::tools::{callable_tool, dmcp_tool, engine_tool, mcp_tool_adapter};
use crate::values::{
    event, interfaces, progress, token_store, tool_call, tool_definition, tool_result,
};

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
