//! Parameters of requests, as text.

use std::str::FromStr;

use crate::error::{RequestError, Result};

/// Returns the value of a parameter, if present.
///
/// # Errors
/// The text cannot be parsed; `expected` describes the expected value.
pub fn parse_parameter<T: FromStr>(
    name: &'static str,
    text: Option<&str>,
    expected: &str,
) -> Result<Option<T>> {
    let value = text.map(str::parse).transpose();
    value.map_err(|_| RequestError::invalid_parameter(name, expected))
}
