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
mod alternatives;
mod counted;
#[cfg(test)]
mod hostile;
mod mend;
mod patterns;
mod python_repr;
mod strict;
#[cfg(test)]
mod tests;
mod violation;

use std::time::Duration;

use jsonschema::{PatternOptions, ValidationError, ValidationOptions};
use serde_json::Value;

use crate::tool::JsonObject;
pub use allowance::Unchecked;
use allowance::{Limits, Step, within};
pub use mend::OptionalNull;
pub(crate) use mend::mend_defaults;
use patterns::Patterns;
pub(crate) use strict::strict;
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
    /// The schema as it was written.
    schema: Value,
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
        let validator = options()
            .with_keyword(counted::STEP, |_, _, _| Ok(Box::new(Step)))
            .build(&counted)
            .map_err(|error| compile_error(schema, &error))?;
        Ok(Self {
            validator,
            schema: schema.clone(),
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

    /// Checks `arguments`, then fills in the defaults of what they leave out. `[]` is taken
    /// for `{}` where the schema allows objects and no arrays: PHP does not tell them apart.
    ///
    /// # Errors
    /// The first violation in the order of the parameters; `arguments` is then unchanged.
    /// Arguments that take longer than two seconds to check are refused, too.
    pub fn validate(&self, arguments: &mut JsonObject) -> Result<(), InvalidArguments> {
        self.validate_reading(arguments, OptionalNull::Wrong)
    }

    /// As [`validate`](Self::validate), with a say in what `null` means.
    ///
    /// ```
    /// use pillion_core::schema::{CompiledSchema, OptionalNull};
    /// use serde_json::json;
    /// let schema = CompiledSchema::compile(&json!({
    ///     "type": "object",
    ///     "properties": {"unit": {"type": "string"}},
    /// }))?;
    /// let mut arguments = json!({"unit": null}).as_object().cloned().unwrap_or_default();
    /// schema.validate_reading(&mut arguments, OptionalNull::LeftOut).unwrap();
    /// assert!(arguments.is_empty());
    /// # Ok::<(), pillion_core::schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn validate_reading(
        &self,
        arguments: &mut JsonObject,
        nulls: OptionalNull,
    ) -> Result<(), InvalidArguments> {
        let instance = Value::Object(std::mem::take(arguments));
        let verdict = self.meant_and_valid(&instance, nulls);
        if let Value::Object(taken) = instance {
            *arguments = taken;
        }
        if let Some(Value::Object(meant)) = verdict? {
            *arguments = meant;
        }
        for (name, property) in self.properties() {
            if let Some(default) = property.get("default").filter(|default| !default.is_null())
                && !arguments.contains_key(name)
            {
                arguments.insert(name.clone(), default.clone());
            }
        }
        Ok(())
    }

    /// What `instance` means, if that is something else and only that fits.
    fn meant_and_valid(
        &self,
        instance: &Value,
        nulls: OptionalNull,
    ) -> Result<Option<Value>, InvalidArguments> {
        let is_valid = |value: &Value| {
            self.is_valid_within(value, DEFAULT_TIME)
                .map_err(InvalidArguments::unchecked)
        };
        if is_valid(instance)? {
            return Ok(None);
        }
        match mend::mended(&self.schema, instance, nulls) {
            Some(meant) if is_valid(&meant)? => Ok(Some(meant)),
            Some(meant) => Err(self.first_violation(&meant)),
            None => Err(self.first_violation(instance)),
        }
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten()
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
            Some(format!(
                "at '{place}': {}",
                violation::reason(&error, "value")
            ))
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
            let place = self.properties().position(|(name, _)| name == parameter);
            place.unwrap_or(usize::MAX)
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

/// What is wrong with a schema, found in the counted one. It is told of the schema as it
/// was written, which has the same fault.
fn compile_error(schema: &Value, found: &ValidationError<'_>) -> SchemaError {
    let told = |error: &ValidationError<'_>| SchemaError {
        path: error.instance_path().as_str().to_owned(),
        reason: error.to_string(),
    };
    match options().build(schema) {
        Err(error) => told(&error),
        Ok(_) => told(found),
    }
}

fn options() -> ValidationOptions<'static> {
    let patterns = PatternOptions::fancy_regex()
        .size_limit(MOST_PATTERN_BYTES)
        .backtrack_limit(MOST_BACKTRACKS);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
}
