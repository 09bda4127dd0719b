//! The maximum nesting depth of values in a chat, so that a saved state can be read again.

use serde_json::Value;

/// The maximum number of nested arrays and objects. `serde_json` reads 128 levels, and a saved
/// state has some additional levels around each message and result.
pub(crate) const MAX_DEPTH: usize = 100;

/// Returns whether a value is nested more deeply than [`MAX_DEPTH`].
pub(crate) fn is_too_deep(value: &Value) -> bool {
    exceeds_depth(value, MAX_DEPTH)
}

fn exceeds_depth(value: &Value, levels: usize) -> bool {
    let Some(levels_below) = levels.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| exceeds_depth(item, levels_below)),
        Value::Object(members) => members
            .values()
            .any(|member| exceeds_depth(member, levels_below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn h7_a_hundred_levels_are_accepted() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(!is_too_deep(&nested(100)));
        assert!(is_too_deep(&nested(101)));
        assert!(is_too_deep(&json!({"a": [1, {"b": nested(99)}]})));
    }
}
