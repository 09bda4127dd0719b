//! Brief checks, which run at once on the thread that serves the call. Longer checks run on other
//! threads, because a schema and its arguments may be malicious.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::{CompiledSchema, Effort, InvalidArguments, OptionalNull};

/// Maximum duration of a brief check.
const MAX_TIME: Duration = Duration::from_millis(5);

/// Number of consecutive checks over the time limit after which a schema gets no further brief
/// checks. A single check may be late because the machine is busy.
const MAX_OVERRUNS: u32 = 8;

/// Maximum number of steps of a brief check. Usual schemas take some tens of steps.
const MAX_STEPS: u64 = 2_000;

/// Maximum size of the arguments of a brief check, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Maximum size of the arguments of a brief check, in bytes, if the schema has regular expressions:
/// one step may match all of the arguments.
const MAX_BYTES_FOR_PATTERNS: usize = 1024;

impl CompiledSchema {
    /// Validates like [`validate_reading`](Self::validate_reading) if the check takes at most a few
    /// milliseconds. Returns `None`, with `arguments` unchanged, if the arguments are large or the
    /// check takes more than some thousand steps.
    ///
    /// ```
    /// use pillion_schema::{CompiledSchema, OptionalNull};
    /// use serde_json::json;
    /// let schema = CompiledSchema::compile(&json!({"required": ["n"]}))?;
    /// let mut arguments = json!({"n": 5}).as_object().cloned().unwrap_or_default();
    /// assert_eq!(schema.validate_briefly(&mut arguments, OptionalNull::Wrong), Some(Ok(())));
    /// # Ok::<(), pillion_schema::SchemaError>(())
    /// ```
    pub fn validate_briefly(
        &self,
        arguments: &mut Map<String, Value>,
        nulls: OptionalNull,
    ) -> Option<Result<(), InvalidArguments>> {
        let may_be_long = self.has_patterns();
        let is_slow = || self.overruns.load(Ordering::Relaxed) >= MAX_OVERRUNS;
        if may_be_long && (!self.patterns.are_simple() || is_slow()) {
            return None;
        }
        let max_bytes = if may_be_long {
            MAX_BYTES_FOR_PATTERNS
        } else {
            MAX_BYTES
        };
        arguments
            .iter()
            .try_fold(max_bytes, |left, (name, value)| {
                subtract_size(left.checked_sub(name.len())?, value)
            })?;
        let began = Instant::now();
        let effort = Effort {
            until: began + MAX_TIME,
            max_steps: MAX_STEPS,
        };
        let checked = self.read_arguments(arguments, nulls, &effort);
        if may_be_long {
            // A match of a regular expression cannot be interrupted, so the time is checked
            // afterwards.
            if began.elapsed() > MAX_TIME {
                self.overruns.fetch_add(1, Ordering::Relaxed);
            } else {
                self.overruns.store(0, Ordering::Relaxed);
            }
        }
        checked.ok()
    }
}

/// Subtracts the size of `value` from `left`. Returns `None` if `value` is larger than `left`.
fn subtract_size(left: usize, value: &Value) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Value::String(text) => left.checked_sub(text.len()),
        Value::Array(items) => items.iter().try_fold(left, subtract_size),
        Value::Object(members) => members.iter().try_fold(left, |left, (name, member)| {
            subtract_size(left.checked_sub(name.len())?, member)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(left),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn briefly(schema: &Value, arguments: &Value) -> Option<bool> {
        let schema = CompiledSchema::compile(schema).unwrap();
        let mut read = arguments.as_object().cloned().unwrap();
        let checked = schema.validate_briefly(&mut read, OptionalNull::LeftOut);
        if checked.is_none() {
            assert_eq!(read, *arguments.as_object().unwrap());
        }
        checked.map(|checked| checked.is_ok())
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
        for (arguments, fits) in [
            (
                json!({"text": "x", "day": "2026-01-01", "either": null}),
                true,
            ),
            (json!({"text": "x", "day": null, "filter": []}), true),
            (json!({"text": 5}), false),
            (json!({"text": "x", "day": "tomorrow"}), false),
        ] {
            // A single check may be late on a busy machine.
            let mut tries = (0..20).map(|_| briefly(&schema, &arguments));
            assert_eq!(tries.find_map(|checked| checked), Some(fits), "{arguments}");
        }
    }

    #[test]
    fn c3_expensive_schemas_are_not_checked_inline() {
        let anything = json!({});
        let text = json!({"a": "x".repeat(20_000)});
        assert_eq!(briefly(&anything, &text), None);
        assert_eq!(briefly(&anything, &json!({"a": vec![0; 20_000]})), None);
        let mut levels = serde_json::Map::new();
        for level in 0..26 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            levels.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        levels.insert("d26".to_owned(), json!({"type": "integer"}));
        let hard = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": levels});
        let began = Instant::now();
        assert_eq!(briefly(&hard, &json!({"a": "x"})), None);
        assert!(began.elapsed() < Duration::from_secs(1));
        // A check of arguments in which a model has set `null` takes more steps.
        assert_eq!(briefly(&hard, &json!({"a": null})), None);
        for pattern in ["^(?=(a+)+$)b", "(\\w{100}){9}", "(a)\\1"] {
            let schema = json!({"properties": {"a": {"pattern": pattern}}});
            assert_eq!(briefly(&schema, &json!({"a": "b"})), None, "{pattern}");
        }
        let schema = json!({"properties": {"a": {"pattern": "^a"}}});
        assert_eq!(briefly(&schema, &json!({"a": "a".repeat(2_000)})), None);
    }
}
