//! The classes of the namespace `Pillion`, one in a file.

mod interfaces;
mod tool_call;
mod tool_definition;
mod tool_result;

use ext_php_rs::error::Result;

/// Registers them all, each after those it refers to.
pub fn register() -> Result<()> {
    tool_definition::register()?;
    tool_call::register()?;
    tool_result::register()?;
    interfaces::register()
}
