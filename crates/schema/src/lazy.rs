use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::cache::{self, SchemaSlot};
use super::instrumented::{InstrumentedSchema, instrument, replace_patterns};
use super::{
    CompiledSchema, InvalidArguments, OptionalNull, SchemaError, SchemaErrorKind, build, repair,
};

/// A schema of another party. If the schema has costly patterns, it is compiled on first use.
///
/// The compiled form is dropped when the compiled schemas of the process exceed their limit of
/// about 64 MiB, and compiled again on the next use. The account with the largest compiled schemas
/// loses some of its schemas first, so that the tools of one server do not displace the tools of
/// other servers.
///
/// ```
/// use std::sync::Arc;
/// use pillion_schema::LazySchema;
/// use serde_json::json;
/// let digits = json!({"properties": {"n": {"pattern": "^[0-9]{1,2000}$"}}});
/// let schema = LazySchema::check(Arc::new(digits), "weather")?;
/// assert!(schema.if_compiled(|_| ()).is_none());
/// assert!(schema.compile()?.mismatch(&json!({"n": "x"})).is_some());
/// assert!(schema.if_compiled(|_| ()).is_some());
/// # Ok::<(), pillion_schema::SchemaError>(())
/// ```
#[derive(Debug)]
pub struct LazySchema {
    source: SchemaSource,
    account: Arc<str>,
    slot: Arc<SchemaSlot>,
}

#[derive(Debug)]
enum SchemaSource {
    Value(Arc<Value>),
    Text(Box<RawValue>),
}

impl LazySchema {
    /// Checks a schema. A schema with costly patterns is checked without its patterns, and compiled
    /// on the first [`compile`](Self::compile); every other schema is compiled now.
    ///
    /// `account` is the party that the schema comes from, such as the label of a server.
    ///
    /// # Errors
    /// The same errors as [`CompiledSchema::compile`], except that an invalid pattern may be
    /// reported later.
    pub fn check(schema: Arc<Value>, account: &str) -> Result<Self, SchemaError> {
        let instrumented = instrument(&schema)?;
        let slot = Arc::new(SchemaSlot::default());
        let account: Arc<str> = account.into();
        if instrumented.size.has_small_patterns() {
            let compiled_schema =
                CompiledSchema::compile_counted(Arc::clone(&schema), &instrumented)?;
            cache::insert(&account, &slot, Arc::new(compiled_schema));
        } else {
            check(&schema, &instrumented)?;
        }
        Ok(Self {
            source: SchemaSource::Value(schema),
            account,
            slot,
        })
    }

    /// Creates a schema without checking the schema. The first [`compile`](Self::compile) reports
    /// any error.
    #[must_use]
    pub fn unchecked(schema: Arc<Value>, account: &str) -> Self {
        Self {
            source: SchemaSource::Value(schema),
            account: account.into(),
            slot: Arc::default(),
        }
    }

    /// Creates a schema from JSON text without checking the text. The schema is
    /// [repaired](repair()) when it is compiled.
    #[must_use]
    pub fn from_text(text: Box<RawValue>, account: &str) -> Self {
        Self {
            source: SchemaSource::Text(text),
            account: account.into(),
            slot: Arc::default(),
        }
    }

    /// Calls `check` with the compiled schema, if the schema is compiled.
    pub fn if_compiled<T>(&self, check: impl FnOnce(&CompiledSchema) -> T) -> Option<T> {
        self.slot.get().as_ref().map(|schema| check(schema))
    }

    /// Validates arguments like [`CompiledSchema::validate_briefly`]. Also returns `None` if the
    /// schema is not compiled.
    pub fn validate_briefly(
        &self,
        arguments: &mut serde_json::Map<String, Value>,
        nulls: OptionalNull,
    ) -> Option<Result<(), InvalidArguments>> {
        self.if_compiled(|schema| schema.validate_briefly(arguments, nulls))?
    }

    /// Returns the compiled schema, and compiles the schema if necessary. Compiling may take some
    /// hundred milliseconds: call this method on a thread that serves no other requests.
    ///
    /// # Errors
    /// The same errors as [`CompiledSchema::compile`].
    pub fn compile(&self) -> Result<Arc<CompiledSchema>, SchemaError> {
        if let Some(error) = self.error() {
            return Err(error.clone());
        }
        // The lock makes concurrent callers wait until the first caller has compiled the schema.
        let _compile_guard = self.slot.compile_lock.lock();
        if let Some(compiled_schema) = self.slot.get().as_ref() {
            return Ok(Arc::clone(compiled_schema));
        }
        let compiled_schema = self.compile_source();
        if let Err(error) = &compiled_schema
            && error.kind != SchemaErrorKind::TooSlow
        {
            // Concurrent callers get equal errors, so it is sufficient to store the first one.
            drop(self.slot.error.set(error.clone()));
        }
        compiled_schema
    }

    fn compile_source(&self) -> Result<Arc<CompiledSchema>, SchemaError> {
        let schema = match &self.source {
            SchemaSource::Value(schema) => Arc::clone(schema),
            SchemaSource::Text(text) => {
                let mut parsed_schema = serde_json::from_str(text.get()).map_err(|error| {
                    SchemaError::new(SchemaErrorKind::Invalid, &error.to_string())
                })?;
                repair(&mut parsed_schema);
                Arc::new(parsed_schema)
            }
        };
        let instrumented = instrument(&schema)?;
        let compiled_schema = Arc::new(CompiledSchema::compile_counted(schema, &instrumented)?);
        cache::insert(&self.account, &self.slot, Arc::clone(&compiled_schema));
        Ok(compiled_schema)
    }

    /// Returns why the schema cannot be compiled, if an attempt to compile it has failed.
    #[must_use]
    pub fn error(&self) -> Option<&SchemaError> {
        self.slot.error.get()
    }
}

/// Checks that a schema can be compiled. Costly patterns are first replaced with simple patterns,
/// because compiling costly patterns is slow.
pub(super) fn check(schema: &Value, instrumented: &InstrumentedSchema) -> Result<(), SchemaError> {
    if instrumented.size.has_small_patterns() {
        build(&instrumented.schema, schema, instrumented)?;
    } else if let Some(simple_schema) = replace_patterns(schema)
        && let Some(simple_instrumented) = replace_patterns(&instrumented.schema)
    {
        build(&simple_instrumented, &simple_schema, instrumented)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn costly_schema(name: &str) -> Value {
        json!({"properties": {(name): {"pattern": "^[a-z]{1,2000}$"}}})
    }

    #[test]
    fn a_costly_pattern_is_compiled_on_first_use() {
        let schema = LazySchema::check(Arc::new(costly_schema("a")), "lazy").unwrap();
        assert!(schema.if_compiled(|_| ()).is_none());
        let mut arguments = json!({"a": "1"}).as_object().cloned().unwrap();
        let brief_verdict = schema.validate_briefly(&mut arguments, OptionalNull::Invalid);
        assert_eq!(brief_verdict, None);
        assert!(schema.compile().unwrap().validate(&mut arguments).is_err());
        assert!(schema.if_compiled(|_| ()).is_some());
        let simple = json!({"properties": {"a": {"pattern": "^[a-z]+$"}}});
        let simple_schema = LazySchema::check(Arc::new(simple), "lazy").unwrap();
        assert!(simple_schema.if_compiled(|_| ()).is_some());
    }

    #[test]
    fn a_fault_beside_a_costly_pattern_is_reported_at_once() {
        for (invalid_property, path) in [
            (json!({"type": 5}), "/properties/b/type"),
            (json!({"minLength": "x"}), "/properties/b/minLength"),
            (json!({"patternProperties": {"^[0-9]{1,3000}$": 5}}), ""),
            (json!({"$ref": "#/$defs/none"}), ""),
        ] {
            let mut schema = costly_schema("a");
            schema["properties"]["b"] = invalid_property.clone();
            let error = LazySchema::check(Arc::new(schema), "lazy").unwrap_err();
            assert!(!error.exceeds_limit());
            assert!(
                error.path.starts_with(path),
                "{invalid_property}: {error:?}"
            );
        }
        let pattern = json!({"pattern": format!("^({}", "a".repeat(70_000))});
        let unchecked_schema = LazySchema::check(Arc::new(pattern), "lazy").unwrap();
        let error = unchecked_schema.compile().unwrap_err();
        assert!(!error.exceeds_limit());
        assert_eq!(unchecked_schema.error(), Some(&error));
    }

    #[test]
    fn compiled_schemas_are_dropped_beyond_the_limit_and_compiled_again() {
        let schemas: Vec<_> = (0..400)
            .map(|index| {
                LazySchema::check(Arc::new(costly_schema(&format!("p{index}"))), "evict").unwrap()
            })
            .collect();
        for schema in &schemas {
            schema.compile().unwrap();
        }
        let is_compiled = |schema: &&LazySchema| schema.if_compiled(|_| ()).is_some();
        let compiled_count = schemas.iter().filter(is_compiled).count();
        assert!((1..400).contains(&compiled_count), "{compiled_count}");
        assert!(schemas.last().as_ref().is_some_and(is_compiled));
        let first = &schemas[0];
        assert!(!is_compiled(&first));
        let compiled_schema = first.compile().unwrap();
        assert!(compiled_schema.mismatch(&json!({"p0": "1"})).is_some());
        assert!(is_compiled(&first));
    }
}
