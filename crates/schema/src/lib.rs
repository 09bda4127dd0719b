//! Compiled JSON Schemas of tools, and the error messages for invalid arguments.
//!
//! The `jsonschema` crate validates, without network and file access: a remote `$ref` is never
//! fetched. If the arguments violate the schema, the error message describes the first violation,
//! in the order of the parameters.
//!
//! Schemas may come from untrusted servers, so the size of a schema, the size of its compiled form
//! and the work of a check are limited. [`LazySchema`] compiles a schema on first use, and the
//! total size of the schemas that stay compiled is limited. [`compute`] runs long computations on
//! other threads.
//! Regular expressions without look-around and back-references take linear time; other
//! expressions fail after a number of steps. The number of names that are matched against patterns
//! is limited, too. [`json_values`] limits the values of JSON texts before they are parsed.
//!
//! [`repair()`] repairs a schema before any other use: in the definition of a tool, and in the tool
//! list of a server.

mod allowance;
mod alternatives;
mod brief;
mod cache;
mod compiled_size;
pub mod compute;
mod dialect;
#[cfg(test)]
mod hostile;
mod instrumented;
mod json_text;
pub mod json_values;
mod keywords;
mod lazy;
pub mod lone_surrogates;
mod mend;
mod pattern_cost;
mod patterns;
mod portable;
mod property_keys;
mod python_repr;
mod repair;
mod strict;
#[cfg(test)]
mod tests;
mod violation;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jsonschema::{PatternOptions, ValidationError, ValidationOptions};
use serde_json::{Map, Value};

pub use allowance::CheckAborted;
use allowance::{Limits, StepKeyword, run_within_limits};
use instrumented::{InstrumentedSchema, instrument};
pub use keywords::{SubschemaKind, subschemas, subschemas_mut};
pub use lazy::LazySchema;
pub use mend::OptionalNull;
pub use mend::coerce_defaults;
use patterns::Patterns;
pub use portable::to_portable_schema;
pub use property_keys::PropertyKeys;
pub use repair::repair;
pub use strict::to_strict_schema;
pub use violation::InvalidArguments;

/// Maximum duration of a check of arguments, even if the call has more time.
pub const MAX_CHECK_TIME: Duration = Duration::from_secs(2);

/// Maximum number of steps for finding the error message; each step may allocate a part of the
/// message.
const MAX_MESSAGE_STEPS: u64 = 10_000;

const MAX_BACKTRACKS: usize = 50_000;

/// Maximum duration of compiling one schema. The size limits of a schema usually end the
/// compilation sooner.
const MAX_COMPILE_TIME: Duration = Duration::from_secs(5);

/// Maximum number of copies of subschemas in a compiled schema, and the maximum estimated size of
/// one copy, in bytes.
const MAX_COPIES: usize = 6_000;
const BYTES_PER_COPY: u64 = 10 * 1024;

const TOO_MANY_COPIES_MESSAGE: &str =
    "the references of the schema lead to too many copies of subschemas";

/// A compiled JSON Schema for the arguments of one tool.
///
/// ```
/// use pillion_schema::CompiledSchema;
/// use serde_json::json;
/// let schema = CompiledSchema::compile(&json!({
///     "type": "object",
///     "properties": {"n": {"type": "integer"}, "unit": {"type": "string", "default": "m"}},
///     "required": ["n"],
/// }))?;
/// let mut arguments = json!({"n": 5.0}).as_object().cloned().unwrap_or_default();
/// schema.validate(&mut arguments).unwrap();
/// assert_eq!(arguments["unit"], "m");
/// # Ok::<(), pillion_schema::SchemaError>(())
/// ```
#[derive(Debug)]
pub struct CompiledSchema {
    validator: jsonschema::Validator,
    /// The schema as the tool's author wrote it.
    schema: Arc<Value>,
    patterns: Patterns,
    /// The size of the compiled form, in bytes.
    bytes: u64,
    /// Number of consecutive brief checks that exceeded their time.
    overruns: AtomicU32,
}

/// Error of a schema that cannot be compiled, because it is not a valid JSON Schema, references a
/// document that would have to be fetched, or is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid JSON Schema at '{path}': {reason}")]
pub struct SchemaError {
    /// Location of the error in the schema, as a JSON pointer; empty for the whole schema.
    pub path: String,
    /// The violated rule or limit, without the location.
    pub reason: String,
    /// Whether the schema is invalid or exceeds a limit.
    pub kind: SchemaErrorKind,
}

/// The kind of a [`SchemaError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaErrorKind {
    /// The schema is not a valid JSON Schema.
    Invalid,
    /// The schema, or its compiled form, exceeds a size limit.
    TooLarge,
    /// Compiling the schema took too long. Another attempt may succeed.
    TooSlow,
}

impl SchemaError {
    fn new(kind: SchemaErrorKind, reason: &str) -> Self {
        Self {
            path: String::new(),
            reason: reason.to_owned(),
            kind,
        }
    }

    /// Returns whether the schema may be valid, and only exceeds a limit.
    #[must_use]
    pub fn exceeds_limit(&self) -> bool {
        self.kind != SchemaErrorKind::Invalid
    }
}

impl CompiledSchema {
    /// Compiles `schema`, as draft 2020-12 unless its `$schema` names another draft.
    ///
    /// Compiling may take some hundred milliseconds: for the schema of another party, use
    /// [`LazySchema`], or [`compute`].
    ///
    /// # Errors
    /// [`SchemaError`] if `schema` is not a valid schema, has a `$ref` to another document or to a
    /// location that is not a schema, has more than 50,000 subschemas, 1,000 references or 512
    /// patterns, or if its compiled form would take more than about 32 MiB.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_counted(Arc::new(schema.clone()), &instrument(schema)?)
    }

    /// Checks a schema like [`LazySchema::check`], without storing the compiled form.
    ///
    /// # Errors
    /// The same errors as [`compile`](Self::compile), except that costly patterns are not checked.
    pub fn check(schema: &Value) -> Result<(), SchemaError> {
        lazy::check(schema, &instrument(schema)?)
    }

    fn compile_counted(
        schema: Arc<Value>,
        instrumented: &InstrumentedSchema,
    ) -> Result<Self, SchemaError> {
        let BuiltValidator { validator, copies } =
            build(&instrumented.schema, &schema, instrumented)?;
        Ok(Self {
            validator,
            schema,
            patterns: instrumented.patterns,
            bytes: instrumented.size.bytes() + copies * BYTES_PER_COPY,
            overruns: AtomicU32::new(0),
        })
    }

    /// Returns whether the schema has regular expressions. A match of a regular expression cannot
    /// be interrupted and takes an unpredictable time, so a check with such a schema may overrun
    /// its limit by some milliseconds: therefore, run the check on a thread that serves no other
    /// requests.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.patterns.count > 0
    }

    /// Validates `arguments`, then adds the defaults of missing arguments. `[]` counts as `{}`
    /// where the schema allows objects but no arrays, because PHP encodes an empty array as `[]`
    /// even if the array represents an object.
    ///
    /// # Errors
    /// The first violation in the order of the parameters; `arguments` is then unchanged. Arguments
    /// that take longer than two seconds to validate are rejected, too.
    pub fn validate(&self, arguments: &mut Map<String, Value>) -> Result<(), InvalidArguments> {
        self.validate_with_nulls(arguments, OptionalNull::Invalid)
    }

    /// Validates like [`validate`](Self::validate); `nulls` determines what `null` means for an
    /// optional parameter.
    ///
    /// ```
    /// use pillion_schema::{CompiledSchema, OptionalNull};
    /// use serde_json::json;
    /// let schema = CompiledSchema::compile(&json!({
    ///     "type": "object",
    ///     "properties": {"unit": {"type": "string"}},
    /// }))?;
    /// let mut arguments = json!({"unit": null}).as_object().cloned().unwrap_or_default();
    /// schema.validate_with_nulls(&mut arguments, OptionalNull::Absent).unwrap();
    /// assert!(arguments.is_empty());
    /// # Ok::<(), pillion_schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`validate`](Self::validate).
    pub fn validate_with_nulls(
        &self,
        arguments: &mut Map<String, Value>,
        nulls: OptionalNull,
    ) -> Result<(), InvalidArguments> {
        let verdict = self.validate_within(arguments, nulls, MAX_CHECK_TIME);
        verdict.unwrap_or_else(|abort_reason| Err(InvalidArguments::from_abort(abort_reason)))
    }

    /// Validates like [`validate_with_nulls`](Self::validate_with_nulls), but aborts the check
    /// after `time_limit`.
    ///
    /// # Errors
    /// [`CheckAborted`] if the check would exceed `time_limit` or the stack limit, or if the
    /// arguments have too many names for the schema's patterns; `arguments` is then unchanged.
    pub fn validate_within(
        &self,
        arguments: &mut Map<String, Value>,
        nulls: OptionalNull,
        time_limit: Duration,
    ) -> Result<Result<(), InvalidArguments>, CheckAborted> {
        self.read_arguments(arguments, nulls, &CheckBudget::for_time(time_limit))
    }

    fn read_arguments(
        &self,
        arguments: &mut Map<String, Value>,
        nulls: OptionalNull,
        budget: &CheckBudget,
    ) -> Result<Result<(), InvalidArguments>, CheckAborted> {
        let instance = Value::Object(std::mem::take(arguments));
        let verdict = self.coerce_if_invalid(&instance, nulls, budget);
        if let Value::Object(original_arguments) = instance {
            *arguments = original_arguments;
        }
        match verdict? {
            Ok(Some(Value::Object(coerced_arguments))) => *arguments = coerced_arguments,
            Ok(_) => {}
            Err(violation) => return Ok(Err(violation)),
        }
        for (name, property) in self.properties() {
            if let Some(default) = property.get("default").filter(|default| !default.is_null())
                && !arguments.contains_key(name)
            {
                arguments.insert(name.clone(), default.clone());
            }
        }
        Ok(Ok(()))
    }

    /// Returns `None` if `instance` is valid. If only the intended value ([`mend::coerce_value`])
    /// is valid, returns the intended value. Otherwise fails with the first violation.
    fn coerce_if_invalid(
        &self,
        instance: &Value,
        nulls: OptionalNull,
        budget: &CheckBudget,
    ) -> Result<Result<Option<Value>, InvalidArguments>, CheckAborted> {
        if self.is_valid_with(instance, budget)? {
            return Ok(Ok(None));
        }
        let coerced_value =
            mend::coerce_value(&self.schema, instance, nulls, budget.max_coercion_steps())?;
        match coerced_value {
            Some(coerced_value) if self.is_valid_with(&coerced_value, budget)? => {
                Ok(Ok(Some(coerced_value)))
            }
            Some(coerced_value) => Ok(Err(self.first_violation(&coerced_value, budget)?)),
            None => Ok(Err(self.first_violation(instance, budget)?)),
        }
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten()
    }

    /// Returns why a value of any type, such as a result, does not match the schema; `None` if the
    /// value matches. A value that takes longer than two seconds to validate does not match.
    #[must_use]
    pub fn mismatch(&self, value: &Value) -> Option<String> {
        let verdict = self.mismatch_within(value, MAX_CHECK_TIME);
        verdict.unwrap_or_else(|abort_reason| Some(abort_reason.to_string()))
    }

    /// Returns the result of [`mismatch`](Self::mismatch), with a time limit.
    ///
    /// # Errors
    /// [`CheckAborted`] if the check would exceed `time_limit` or the stack limit, or if the value
    /// has too many names for the schema's patterns.
    pub fn mismatch_within(
        &self,
        value: &Value,
        time_limit: Duration,
    ) -> Result<Option<String>, CheckAborted> {
        let budget = CheckBudget::for_time(time_limit);
        if self.is_valid_with(value, &budget)? {
            return Ok(None);
        }
        let message = run_within_limits(&self.message_limits(&budget), || {
            let error = self.validator.validate(value).err()?;
            let pointer = error.instance_path().to_string();
            let path = if pointer.is_empty() { "/" } else { &pointer };
            // The message omits the value itself, which may be large or confidential.
            let reason = violation::reason(&error, "value");
            Some(format!("at '{path}': {reason}"))
        });
        Ok(message.unwrap_or_else(|_| Some("the value does not match its schema".to_owned())))
    }

    fn is_valid_with(&self, value: &Value, budget: &CheckBudget) -> Result<bool, CheckAborted> {
        self.patterns.check_names(value)?;
        let limits = Limits {
            deadline: budget.deadline,
            max_steps: budget.max_steps,
            has_slow_steps: self.has_patterns(),
        };
        run_within_limits(&limits, || self.validator.is_valid(value))
    }

    /// Returns the limits for finding the violation that the error message describes.
    fn message_limits(&self, budget: &CheckBudget) -> Limits {
        Limits {
            deadline: budget.deadline,
            max_steps: budget.max_steps.min(MAX_MESSAGE_STEPS),
            has_slow_steps: self.has_patterns(),
        }
    }

    /// Returns the violation of the first parameter in the order of the schema.
    ///
    /// # Errors
    /// [`CheckAborted`] if `budget` is that of a brief check, and is not sufficient to find the
    /// first violation.
    fn first_violation(
        &self,
        instance: &Value,
        budget: &CheckBudget,
    ) -> Result<InvalidArguments, CheckAborted> {
        let rank = |parameter: &str| {
            let index = self.properties().position(|(name, _)| name == parameter);
            index.unwrap_or(usize::MAX)
        };
        let first_violation = run_within_limits(&self.message_limits(budget), || {
            self.validator
                .iter_errors(instance)
                .map(|error| InvalidArguments::from_error(&error))
                .min_by_key(|violation| rank(violation.parameter()))
        });
        match first_violation {
            Ok(Some(first_violation)) => Ok(first_violation),
            Err(abort_reason) if budget.is_brief() => Err(abort_reason),
            // The first violation is unknown, usually because the check had too little time to find
            // all violations.
            Ok(None) | Err(_) => Ok(InvalidArguments::without_reason()),
        }
    }
}

/// The time and the number of steps that a check may take.
struct CheckBudget {
    deadline: Instant,
    /// Maximum number of steps of each part of the check.
    max_steps: u64,
}

impl CheckBudget {
    fn for_time(time_limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            deadline: now.checked_add(time_limit).unwrap_or(now),
            max_steps: u64::MAX,
        }
    }

    fn is_brief(&self) -> bool {
        self.max_steps < u64::MAX
    }

    fn max_coercion_steps(&self) -> Option<u32> {
        let steps = u32::try_from(self.max_steps).unwrap_or(u32::MAX);
        self.is_brief().then_some(steps)
    }
}

/// The result of [`build`]: a compiled schema, and the number of copies of subschemas in it.
struct BuiltValidator {
    validator: jsonschema::Validator,
    copies: u64,
}

/// Compiles `counting_schema`, the form of `schema` with step counters, within the size limits that
/// `instrumented` contains.
///
/// For `unevaluatedProperties` and `unevaluatedItems`, the compiler copies the targets of
/// references. A small schema may result in an astronomical number of copies, so `build` limits the
/// number.
fn build(
    counting_schema: &Value,
    schema: &Value,
    instrumented: &InstrumentedSchema,
) -> Result<BuiltValidator, SchemaError> {
    let deadline = Instant::now() + MAX_COMPILE_TIME;
    let max_steps = instrumented.subschema_count + MAX_COPIES;
    let steps = Arc::new(AtomicUsize::new(0));
    let is_aborted = Arc::new(AtomicBool::new(false));
    let (step_counter, abort_flag) = (Arc::clone(&steps), Arc::clone(&is_aborted));
    // The engine enforces the estimated size, so a wrong estimate results in an error rather than
    // in unaccounted memory.
    let max_pattern_bytes = instrumented.size.max_pattern_bytes();
    let build_result = create_options(max_pattern_bytes)
        // The compiler calls this function for each subschema, including copies, so that the copies
        // can be counted.
        .with_keyword(instrumented::STEP_KEYWORD, move |_, _, _| {
            let has_too_many_steps = step_counter.fetch_add(1, Ordering::Relaxed) >= max_steps;
            if has_too_many_steps || Instant::now() > deadline {
                abort_flag.store(!has_too_many_steps, Ordering::Relaxed);
                return Err(ValidationError::custom(TOO_MANY_COPIES_MESSAGE));
            }
            Ok(Box::new(StepKeyword))
        })
        .build(counting_schema);
    match build_result {
        Ok(validator) => Ok(BuiltValidator {
            validator,
            copies: steps
                .load(Ordering::Relaxed)
                .saturating_sub(instrumented.subschema_count) as u64,
        }),
        Err(_) if is_aborted.load(Ordering::Relaxed) => Err(SchemaError::new(
            SchemaErrorKind::TooSlow,
            "the schema takes too long to compile",
        )),
        Err(error) if error.to_string() == TOO_MANY_COPIES_MESSAGE => {
            Err(instrumented::too_large(TOO_MANY_COPIES_MESSAGE))
        }
        Err(error) => Err(compile_error(schema, &error, max_pattern_bytes)),
    }
}

/// Returns the compilation error of the original schema, because the error of the schema with step
/// counters would describe a schema that its author does not know.
fn compile_error(
    schema: &Value,
    original_error: &ValidationError<'_>,
    max_pattern_bytes: usize,
) -> SchemaError {
    let schema_error = |error: &ValidationError<'_>| SchemaError {
        path: error.instance_path().as_str().to_owned(),
        reason: error.to_string(),
        kind: SchemaErrorKind::Invalid,
    };
    match create_options(max_pattern_bytes).build(schema) {
        Err(error) => schema_error(&error),
        Ok(_) => schema_error(original_error),
    }
}

fn create_options(max_pattern_bytes: usize) -> ValidationOptions<'static> {
    let patterns = PatternOptions::fancy_regex()
        .size_limit(max_pattern_bytes)
        .backtrack_limit(MAX_BACKTRACKS);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
}
