//! A tool's JSON Schema, compiled once, and the words for what it finds wrong.
//!
//! The schema is judged by the `jsonschema` crate with its network and file access off: a
//! remote `$ref` is never fetched. What it finds is put into the sentences of requirement
//! C3, in the order of the parameters.
//!
//! Schemas come from servers, too: the size of one is limited, and so is the work of a
//! check. Regular expressions without look-around and back-references take linear time;
//! others give up after a number of steps. How many names are matched with how many of them
//! is limited, too.

mod allowance;
mod counted;
#[cfg(test)]
mod hostile;
mod patterns;
mod python_repr;
mod violation;

use std::time::Duration;

use jsonschema::PatternOptions;
use serde_json::Value;

use crate::tool::JsonObject;
pub use allowance::Unchecked;
use allowance::{Limits, Step, within};
use patterns::Patterns;
pub use violation::InvalidArguments;

/// How long a check may take, unless it is said.
const DEFAULT_TIME: Duration = Duration::from_secs(2);

/// Steps on the way to the words for what is wrong, each of which may leave a word behind.
const MOST_STEPS_FOR_WORDS: u64 = 10_000;

/// Bytes that a regular expression may compile to.
const MOST_PATTERN_BYTES: usize = 1024 * 1024;
const MOST_BACKTRACKS: usize = 50_000;

/// A compiled JSON Schema for the arguments of one tool.
///
/// ```
/// use pillion_core::schema::CompiledSchema;
/// use serde_json::json;
/// let schema = CompiledSchema::compile(&json!({
///     "type": "object",
///     "properties": {"n": {"type": "integer"}, "unit": {"type": "string", "default": "m"}},
///     "required": ["n"],
/// }))?;
/// let mut arguments = json!({"n": 5.0}).as_object().cloned().unwrap_or_default();
/// schema.validate(&mut arguments).unwrap();
/// assert_eq!(arguments["unit"], "m");
/// # Ok::<(), pillion_core::schema::SchemaError>(())
/// ```
#[derive(Debug)]
pub struct CompiledSchema {
    validator: jsonschema::Validator,
    /// The properties in their order, with the default of each.
    properties: Vec<(String, Option<Value>)>,
    patterns: Patterns,
}

/// A schema that cannot be compiled: it is no valid JSON Schema, refers to a document that
/// would have to be fetched, or is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid JSON Schema at '{path}': {reason}")]
pub struct SchemaError {
    /// Where in the schema, as a JSON pointer; empty for the schema as a whole.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
}

impl CompiledSchema {
    /// Compiles `schema`; draft 2020-12 unless its `$schema` says otherwise.
    ///
    /// # Errors
    /// [`SchemaError`] when it is no valid schema, has a `$ref` to another document or to a
    /// place that is no schema, or more than 50,000 subschemas, 1,000 references or 512
    /// patterns.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let (counted, patterns) = counted::counted(schema)?;
        let options = PatternOptions::fancy_regex()
            .size_limit(MOST_PATTERN_BYTES)
            .backtrack_limit(MOST_BACKTRACKS);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(options)
            .with_keyword(counted::STEP, |_, _, _| Ok(Box::new(Step)))
            .build(&counted)
            .map_err(|error| SchemaError {
                path: error.instance_path().as_str().to_owned(),
                reason: error.to_string(),
            })?;
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .map(|properties| {
                properties
                    .iter()
                    .map(|(name, property)| (name.clone(), property.get("default").cloned()))
                    .collect()
            })
            .unwrap_or_default();
        Ok(Self {
            validator,
            properties,
            patterns,
        })
    }

    /// Whether the schema has regular expressions. How long one takes is not known before,
    /// and nothing stops it on the way: such a check may be late by some milliseconds, and
    /// is nothing for a thread that others wait for.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.patterns.count > 0
    }

    /// Checks `arguments`, then fills in the defaults of what they leave out.
    ///
    /// # Errors
    /// The first violation in the order of the parameters; `arguments` is then unchanged.
    /// Arguments that take longer than two seconds to check are refused, too.
    pub fn validate(&self, arguments: &mut JsonObject) -> Result<(), InvalidArguments> {
        let instance = Value::Object(std::mem::take(arguments));
        let verdict = match self.is_valid_within(&instance, DEFAULT_TIME) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.first_violation(&instance)),
            Err(unchecked) => Err(InvalidArguments::unchecked(unchecked)),
        };
        if let Value::Object(taken) = instance {
            *arguments = taken;
        }
        verdict?;
        for (name, default) in &self.properties {
            if let Some(default) = default.as_ref().filter(|default| !default.is_null())
                && !arguments.contains_key(name)
            {
                arguments.insert(name.clone(), default.clone());
            }
        }
        Ok(())
    }

    /// What is wrong with a value of any type, such as a result; none when it fits. One
    /// that takes longer than two seconds to check is wrong.
    #[must_use]
    pub fn mismatch(&self, value: &Value) -> Option<String> {
        let checked = self.mismatch_within(value, DEFAULT_TIME);
        checked.unwrap_or_else(|unchecked| Some(unchecked.to_string()))
    }

    /// [`mismatch`](Self::mismatch) with a limit on how long that may take.
    ///
    /// # Errors
    /// [`Unchecked`] when it would take longer, or more of the stack than is good, or the
    /// value has too many names for the schema's patterns.
    pub fn mismatch_within(
        &self,
        value: &Value,
        time: Duration,
    ) -> Result<Option<String>, Unchecked> {
        if self.is_valid_within(value, time)? {
            return Ok(None);
        }
        let words = within(&self.limits(time, MOST_STEPS_FOR_WORDS), || {
            let error = self.validator.validate(value).err()?;
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "/" } else { &path };
            // Without the value itself, which may be large or nobody's business.
            Some(format!("at '{place}': {}", error.masked()))
        });
        Ok(words.unwrap_or_else(|_| Some("it does not fit its schema".to_owned())))
    }

    fn is_valid_within(&self, value: &Value, time: Duration) -> Result<bool, Unchecked> {
        self.patterns.admit(value)?;
        within(&self.limits(time, u64::MAX), || {
            self.validator.is_valid(value)
        })
    }

    fn limits(&self, time: Duration, most_steps: u64) -> Limits {
        Limits {
            time,
            most_steps,
            steps_are_long: self.has_patterns(),
        }
    }

    fn first_violation(&self, instance: &Value) -> InvalidArguments {
        let rank = |parameter: &str| {
            self.properties
                .iter()
                .position(|(name, _)| name == parameter)
                .unwrap_or(self.properties.len())
        };
        let first = within(&self.limits(DEFAULT_TIME, MOST_STEPS_FOR_WORDS), || {
            self.validator
                .iter_errors(instance)
                .map(|error| InvalidArguments::from_error(&error))
                .min_by_key(|violation| rank(violation.parameter()))
        });
        // Too much is wrong to be told one by one.
        first
            .ok()
            .flatten()
            .unwrap_or_else(InvalidArguments::unexplained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: &Value, arguments: Value) -> Result<Value, String> {
        let mut arguments = match arguments {
            Value::Object(arguments) => arguments,
            other => panic!("{other} is no object"),
        };
        CompiledSchema::compile(schema)
            .unwrap()
            .validate(&mut arguments)
            .map(|()| Value::Object(arguments))
            .map_err(|violation| violation.to_string())
    }

    fn search() -> Value {
        json!({"type": "object", "properties": {
            "query": {"type": "string"},
            "num_results": {"type": "integer", "default": 5},
            "format": {"type": "string", "enum": ["full", "date", "time"]},
            "nested": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "number"}}}},
        }, "required": ["query"]})
    }

    #[test]
    fn c3_missing_and_wrong_parameters_have_the_seeds_words() {
        let schema = search();
        let error = |arguments| check(&schema, arguments).unwrap_err();
        assert_eq!(error(json!({})), "Missing required parameter: query");
        assert_eq!(
            error(json!({"query": "x", "num_results": "5"})),
            "Invalid type for num_results: expected integer"
        );
        assert_eq!(
            error(json!({"query": "x", "num_results": true})),
            "Invalid type for num_results: expected integer"
        );
        assert_eq!(
            error(json!({"query": "x", "format": "iso"})),
            "Invalid value for format: must be one of ['full', 'date', 'time']"
        );
        assert_eq!(
            error(json!({"query": "x", "nested": {"list": [1, "2"]}})),
            "Invalid type for nested.list[1]: expected number"
        );
    }

    #[test]
    fn c3_the_first_parameter_wins() {
        let message = check(&search(), json!({"format": "x", "num_results": "y"})).unwrap_err();
        assert_eq!(message, "Missing required parameter: query");
        let message = check(
            &search(),
            json!({"format": "x", "num_results": "y", "query": "q"}),
        )
        .unwrap_err();
        assert_eq!(message, "Invalid type for num_results: expected integer");
    }

    #[test]
    fn c3_whole_floats_are_integers_and_defaults_are_filled_in() {
        let filled = check(&search(), json!({"query": "x", "num_results": 5.0})).unwrap();
        assert_eq!(filled["num_results"], json!(5.0));
        let filled = check(&search(), json!({"query": "x"})).unwrap();
        assert_eq!(filled["num_results"], json!(5));
    }

    #[test]
    fn a5_every_keyword_of_the_subset_holds_at_any_depth() {
        let schema = json!({"type": "object", "properties": {"order": {
            "type": "object",
            "description": "What to deliver",
            "properties": {"items": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "size": {"type": "string", "enum": ["s", "l"], "default": "s"},
                    "count": {"type": "integer"},
                },
                "required": ["count"],
            }}},
            "required": ["items"],
        }}, "required": ["order"]});
        let with = |items| check(&schema, json!({"order": {"items": items}}));
        assert!(with(json!([{"count": 1}, {"count": 2, "size": "l"}])).is_ok());
        let error = |items| with(items).unwrap_err();
        assert_eq!(
            error(json!([{"count": 1}, {}])),
            "Missing required parameter: order.items[1].count"
        );
        assert_eq!(
            error(json!([{"count": 1, "size": "m"}])),
            "Invalid value for order.items[0].size: must be one of ['s', 'l']"
        );
        assert_eq!(
            error(json!({})),
            "Invalid type for order.items: expected array"
        );
    }

    #[test]
    fn a_remote_reference_is_never_fetched() {
        for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/hostname"] {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
            assert!(CompiledSchema::compile(&schema).is_err(), "{reference}");
        }
    }

    #[test]
    fn a_message_never_repeats_a_long_value() {
        let long = "x".repeat(100_000);
        let message = check(&search(), json!({"query": "x", "format": long})).unwrap_err();
        assert!(message.len() < 300, "{}", message.len());
    }
}
