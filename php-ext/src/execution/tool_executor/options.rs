//! The options of `ToolExecutor::__construct`.

use ext_php_rs::types::Zval;
use pillion_core::executor::ExecutorConfig;

use crate::exception;
use crate::json::to_value_as;
use crate::mcp::hooks;
use crate::zend::{Result, is_callable, member, type_name, without_entry};

/// The options of an executor, after parsing.
#[derive(Default)]
pub struct ParsedOptions {
    /// The configuration of the engine's executor.
    pub config: ExecutorConfig,
    /// The callable that decides on approvals, or null.
    pub approve_callable: Zval,
    /// The callable that is called before a call runs, or null.
    pub before_callable: Zval,
}

/// Reads the options of an executor; missing options have the engine's defaults.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn read_options(options: &Zval) -> Result<ParsedOptions> {
    let approve_callable = read_callable(options, hooks::APPROVE_CALLABLE)?;
    let before_callable = read_callable(options, hooks::BEFORE_CALLABLE)?;
    let data = without_entry(
        &without_entry(options, hooks::APPROVE_CALLABLE),
        hooks::BEFORE_CALLABLE,
    );
    let settings = to_value_as("argument $options", &data)?;
    let config =
        ExecutorConfig::from_options(settings, &[hooks::APPROVE_CALLABLE, hooks::BEFORE_CALLABLE])
            .map_err(|error| exception::invalid_input(error.to_string()))?;
    Ok(ParsedOptions {
        config,
        approve_callable,
        before_callable,
    })
}

fn read_callable(options: &Zval, name: &str) -> Result<Zval> {
    let value = member(options, name).unwrap_or_default();
    if !value.is_null() && !is_callable(&value)? {
        return Err(exception::invalid_input(format!(
            "Invalid executor option '{name}': it must be callable or null, {} given",
            type_name(&value)
        )));
    }
    Ok(value)
}
