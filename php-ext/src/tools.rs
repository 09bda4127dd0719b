//! The PHP classes of tools, and the state of a `ToolRegistry`.

pub mod callable_tool;
pub mod dmcp_tool;
pub mod engine_tool;
pub mod mcp_tool_adapter;
pub mod registered_clients;
pub mod registry;
