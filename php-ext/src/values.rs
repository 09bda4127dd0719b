//! The PHP classes of calls, results, definitions and events, and the interfaces of tools.

pub mod event;
pub mod interfaces;
pub mod progress;
pub mod token_store;
pub mod tool_call;
pub mod tool_definition;
pub mod tool_result;
