//! Brief checks, which run at once on the thread that serves the call. Longer checks run on other
//! threads, because a schema and its arguments may be malicious.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::{CheckBudget, CompiledSchema, InvalidArguments, OptionalNull};

/// Maximum duration of a brief check.
const BRIEF_CHECK_TIMEOUT: Duration = Duration::from_millis(5);

/// Number of consecutive brief checks that exceed the time limit, after which arguments of the
/// schema are no longer checked briefly. A single check may be late because the machine is busy.
const MAX_OVERRUNS: u32 = 8;

/// Maximum number of steps of each part of a brief check. A typical schema needs a few dozen steps.
const MAX_STEPS: u64 = 2_000;

/// Maximum size of arguments that are checked at once, on the thread that serves the call, in
/// bytes. Larger arguments are checked on another thread.
const MAX_ARGUMENT_BYTES: usize = 16 * 1024;

/// Maximum size of the arguments of a brief check, in bytes, if the schema has regular expressions:
/// one step may match all of the arguments.
const MAX_ARGUMENT_BYTES_FOR_PATTERNS: usize = 1024;

impl CompiledSchema {
    /// Validates like [`validate_with_nulls`](Self::validate_with_nulls) if the check is short: a
    /// few milliseconds, with at most 2,000 steps in each part. Otherwise, and if the arguments are
    /// large or the schema's patterns may be slow to match, returns `None` and leaves `arguments`
    /// unchanged.
    ///
    /// ```
    /// use pillion_schema::{CompiledSchema, OptionalNull};
    /// use serde_json::json;
    /// let schema = CompiledSchema::compile(&json!({"required": ["n"]}))?;
    /// let mut arguments = json!({"n": 5}).as_object().cloned().unwrap_or_default();
    /// assert_eq!(schema.validate_briefly(&mut arguments, OptionalNull::Invalid), Some(Ok(())));
    /// # Ok::<(), pillion_schema::SchemaError>(())
    /// ```
    pub fn validate_briefly(
        &self,
        arguments: &mut Map<String, Value>,
        nulls: OptionalNull,
    ) -> Option<Result<(), InvalidArguments>> {
        let has_patterns = self.has_patterns();
        let is_slow = || self.overruns.load(Ordering::Relaxed) >= MAX_OVERRUNS;
        if has_patterns && (!self.patterns.are_simple() || is_slow()) {
            return None;
        }
        let max_bytes = if has_patterns {
            MAX_ARGUMENT_BYTES_FOR_PATTERNS
        } else {
            MAX_ARGUMENT_BYTES
        };
        arguments
            .iter()
            .try_fold(max_bytes, |remaining_bytes, (name, value)| {
                subtract_size(remaining_bytes.checked_sub(name.len())?, value)
            })?;
        let started_at = Instant::now();
        let budget = CheckBudget {
            deadline: started_at + BRIEF_CHECK_TIMEOUT,
            max_steps: MAX_STEPS,
        };
        let verdict = self.read_arguments(arguments, nulls, &budget);
        if has_patterns {
            // A match of a regular expression cannot be interrupted, so the time that the check
            // took is only compared with the time limit afterwards.
            if started_at.elapsed() > BRIEF_CHECK_TIMEOUT {
                self.overruns.fetch_add(1, Ordering::Relaxed);
            } else {
                self.overruns.store(0, Ordering::Relaxed);
            }
        }
        verdict.ok()
    }
}

/// Subtracts the size of `value` from `max_bytes`. Returns `None` if `value` is larger.
fn subtract_size(max_bytes: usize, value: &Value) -> Option<usize> {
    let remaining_bytes = max_bytes.checked_sub(1)?;
    match value {
        Value::String(text) => remaining_bytes.checked_sub(text.len()),
        Value::Array(items) => items.iter().try_fold(remaining_bytes, subtract_size),
        Value::Object(members) => members
            .iter()
            .try_fold(remaining_bytes, |bytes, (name, member)| {
                subtract_size(bytes.checked_sub(name.len())?, member)
            }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(remaining_bytes),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validate_briefly(schema: &Value, arguments: &Value) -> Option<bool> {
        let schema = CompiledSchema::compile(schema).unwrap();
        let mut coerced = arguments.as_object().cloned().unwrap();
        let verdict = schema.validate_briefly(&mut coerced, OptionalNull::Absent);
        if verdict.is_none() {
            assert_eq!(coerced, *arguments.as_object().unwrap());
        }
        verdict.map(|verdict| verdict.is_ok())
    }

    #[test]
    fn c3_usual_schemas_are_checked_inline() {
        let schema = json!({
            "properties": {
                "text": {"type": "string", "minLength": 1},
                "day": {"type": "string", "pattern": "^[0-9-]+$"},
                "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "filter": {"type": "object"},
            },
            "required": ["text"],
        });
        for (arguments, is_valid) in [
            (
                json!({"text": "x", "day": "2026-01-01", "either": null}),
                true,
            ),
            (json!({"text": "x", "day": null, "filter": []}), true),
            (json!({"text": 5}), false),
            (json!({"text": "x", "day": "tomorrow"}), false),
        ] {
            // A single check may be late on a busy machine.
            let mut attempts = (0..20).map(|_| validate_briefly(&schema, &arguments));
            let verdict = attempts.find_map(|verdict| verdict);
            assert_eq!(verdict, Some(is_valid), "{arguments}");
        }
    }

    #[test]
    fn c3_expensive_schemas_are_not_checked_inline() {
        let any_schema = json!({});
        let text = json!({"a": "x".repeat(20_000)});
        assert_eq!(validate_briefly(&any_schema, &text), None);
        let list = json!({"a": vec![0; 20_000]});
        assert_eq!(validate_briefly(&any_schema, &list), None);
        let mut levels = serde_json::Map::new();
        for level in 0..26 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            levels.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        levels.insert("d26".to_owned(), json!({"type": "integer"}));
        let expensive = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": levels});
        let started_at = Instant::now();
        assert_eq!(validate_briefly(&expensive, &json!({"a": "x"})), None);
        assert!(started_at.elapsed() < Duration::from_secs(1));
        // A check of arguments in which a model has set `null` takes more steps.
        assert_eq!(validate_briefly(&expensive, &json!({"a": null})), None);
        for pattern in ["^(?=(a+)+$)b", "(\\w{100}){9}", "(a)\\1"] {
            let schema = json!({"properties": {"a": {"pattern": pattern}}});
            let verdict = validate_briefly(&schema, &json!({"a": "b"}));
            assert_eq!(verdict, None, "{pattern}");
        }
        let schema = json!({"properties": {"a": {"pattern": "^a"}}});
        let long = json!({"a": "a".repeat(2_000)});
        assert_eq!(validate_briefly(&schema, &long), None);
    }
}
