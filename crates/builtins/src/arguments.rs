//! Helpers that read the arguments of a tool call, whose types the executor has already validated.

use pillion_core::tool::{JsonObject, ToolFailure};
use serde_json::Value;

/// Returns a text argument; empty if the call does not have the argument.
pub(crate) fn text<'a>(arguments: &'a JsonObject, name: &str) -> &'a str {
    let argument = arguments.get(name).and_then(Value::as_str);
    argument.unwrap_or_default()
}

/// Checks that a text is neither empty nor too long.
pub(crate) fn check_text(name: &str, text: &str, max_chars: usize) -> Result<(), ToolFailure> {
    let message = if text.is_empty() {
        format!("No {name} provided")
    } else if text.chars().count() > max_chars {
        format!("The {name} is longer than {max_chars} characters")
    } else {
        return Ok(());
    };
    Err(ToolFailure::invalid_input(message))
}

/// Returns the requested number of results, clamped to the range from 1 to `max_count`; returns
/// `default_count` if the call requests no number.
pub(crate) fn result_count(argument: Option<&Value>, default_count: u8, max_count: u8) -> u8 {
    let Some(requested_count) = argument.and_then(Value::as_f64) else {
        return default_count;
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is clamped, and a cast to u8 saturates"
    )]
    let count = requested_count.clamp(1.0, f64::from(max_count)) as u8;
    count
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn d7_num_results_is_clamped() {
        for (argument, count) in [
            (json!(1), 1),
            (json!(7), 7),
            (json!(10), 10),
            (json!(11), 10),
            (json!(0), 1),
            (json!(-3), 1),
            (json!(4.0), 4),
            (json!(1e300), 10),
            (json!(u64::MAX), 10),
            (Value::Null, 5),
        ] {
            assert_eq!(result_count(Some(&argument), 5, 10), count, "{argument}");
        }
        assert_eq!(result_count(None, 5, 10), 5);
    }
}
