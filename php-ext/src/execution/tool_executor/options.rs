//! The options of `ToolExecutor::__construct`.

use ext_php_rs::types::Zval;
use pillion_core::executor::ExecutorConfig;

use crate::exception;
use crate::json::to_value_as;
use crate::mcp::hooks;
use crate::zend::{Failure, is_callable, member, type_name, without_entry};

/// The options of an executor, after parsing.
#[derive(Default)]
pub struct Options {
    /// The configuration of the engine's executor.
    pub config: ExecutorConfig,
    /// The callable that decides on approvals, or null.
    pub approve: Zval,
    /// The callable that is called before a call runs, or null.
    pub before: Zval,
}

/// Reads the options of an executor; missing options have the engine's defaults.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn read(options: &Zval) -> Result<Options, Failure> {
    let approve = callable(options, hooks::APPROVE)?;
    let before = callable(options, hooks::BEFORE)?;
    let data = without_entry(&without_entry(options, hooks::APPROVE), hooks::BEFORE);
    let data = to_value_as("argument $options", &data)?;
    let config = ExecutorConfig::from_options(data, &[hooks::APPROVE, hooks::BEFORE])
        .map_err(|error| exception::invalid_input(error.to_string()))?;
    Ok(Options {
        config,
        approve,
        before,
    })
}

fn callable(options: &Zval, name: &str) -> Result<Zval, Failure> {
    let value = member(options, name).unwrap_or_default();
    if !value.is_null() && !is_callable(&value)? {
        return Err(exception::invalid_input(format!(
            "Invalid executor option '{name}': it must be callable or null, {} given",
            type_name(&value)
        )));
    }
    Ok(value)
}
