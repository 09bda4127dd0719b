//! Adds a step counter to each subschema, and enforces the size limits of a schema.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::compiled_size::CompiledSize;
use super::keywords::SubschemaKind;
use super::pattern_cost::PatternSizes;
use super::patterns::Patterns;
use super::{SchemaError, SchemaErrorKind};

/// The keyword that counts a step of a check.
pub(super) const STEP_KEYWORD: &str = "x-pillion-step";

/// Maximum number of subschemas of a schema.
const MAX_SUBSCHEMAS: usize = 50_000;
/// Maximum nesting of subschemas. Parsed JSON is never nested more deeply.
const MAX_LEVELS: usize = 128;
/// Maximum number of references (`$ref`). The number is limited because the compiler follows chains
/// of references recursively, on the stack.
const MAX_REFERENCES: usize = 1_000;
/// Maximum number of regular expressions, each of which takes time to compile.
const MAX_PATTERNS: usize = 512;

/// A schema with step counters, and measures of the work to compile the schema.
pub(super) struct InstrumentedSchema {
    /// The schema with its step counters.
    pub(super) schema: Value,
    /// Number of subschemas in the schema.
    pub(super) subschema_count: usize,
    pub(super) patterns: Patterns,
    pub(super) size: CompiledSize,
}

#[derive(Default)]
struct SchemaCounts {
    subschema_count: usize,
    references: Vec<String>,
    patterns: Patterns,
    /// The patterns that are already counted. Equal patterns are counted once, because the
    /// validator compiles them once.
    counted_patterns: HashSet<String>,
    pattern_sizes: PatternSizes,
    size: CompiledSize,
    /// Whether a subschema has an identifier. References in such a subschema are relative to the
    /// identifier.
    has_named_subschemas: bool,
}

/// The properties of a subschema's location that affect how the subschema is instrumented.
#[derive(Clone, Copy, Default)]
struct SubschemaLocation {
    level: usize,
    /// Length of the JSON pointer to this location, in bytes.
    path_bytes: usize,
    /// Whether `$ref` overrides its sibling keywords, as in the drafts up to 7.
    overrides_siblings: bool,
}

impl SubschemaLocation {
    /// Returns this location with the dialect that `schema` declares, or with the dialect of this
    /// location if `schema` declares none.
    fn with_dialect_of(self, schema: &Value) -> Self {
        match schema.get("$schema").and_then(Value::as_str) {
            Some(dialect) => Self {
                overrides_siblings: dialect.contains("draft-0"),
                ..self
            },
            None => self,
        }
    }

    /// Returns the location of a subschema under these keys.
    fn descend(self, keys: [&str; 2]) -> Self {
        let key_bytes: usize = keys.iter().map(|key| key.len() + 1).sum();
        Self {
            level: self.level + 1,
            path_bytes: self.path_bytes + key_bytes,
            ..self
        }
    }
}

/// Adds a step counter to each subschema of `schema`, and measures the patterns and the compiled
/// size. Returns the instrumented schema with the measures.
///
/// The counter is in `allOf`, so that the locations to which references point do not change. The
/// validator evaluates `allOf` before all keywords that multiply the work of a check (`anyOf`,
/// `oneOf`, `not`, `if`, references). If a subschema fails before its `allOf`, its work is not
/// counted, but it has not multiplied any work either. A `pattern`, which may take long by itself,
/// is moved behind the counter.
///
/// # Errors
/// The schema is too large, or a reference leads to a location that does not exist or is not a
/// schema.
pub(super) fn instrument(schema: &Value) -> Result<InstrumentedSchema, SchemaError> {
    let mut counts = SchemaCounts::default();
    let mut instrumented_schema = schema.clone();
    let root = SubschemaLocation::default();
    instrument_part(&mut instrumented_schema, root, &mut counts)?;
    // A reference can point to a value at a location where schemas do not normally occur. The
    // validator uses such a value as a schema, so the value gets step counters, too.
    let location = root.with_dialect_of(schema);
    let mut has_unusual_targets = false;
    let mut next_reference = 0;
    while let Some(reference) = counts.references.get(next_reference) {
        next_reference += 1;
        if let Some(pointer) = unusual_target(reference)? {
            has_unusual_targets = true;
            let target = location.descend([&pointer, ""]);
            instrument_unusual_target(&mut instrumented_schema, &pointer, target, &mut counts)?;
        }
    }
    if has_unusual_targets && counts.has_named_subschemas {
        // A reference may be relative to the identifier of a subschema, so it is uncertain to which
        // location it points.
        return Err(invalid("a $ref points to something that is not a schema"));
    }
    Ok(InstrumentedSchema {
        schema: instrumented_schema,
        subschema_count: counts.subschema_count,
        patterns: counts.patterns,
        size: counts.size,
    })
}

fn instrument_part(
    schema: &mut Value,
    mut location: SubschemaLocation,
    counts: &mut SchemaCounts,
) -> Result<(), SchemaError> {
    location = location.with_dialect_of(schema);
    let Value::Object(entries) = schema else {
        return Ok(());
    };
    counts.subschema_count += 1;
    if counts.subschema_count > MAX_SUBSCHEMAS || location.level > MAX_LEVELS {
        return Err(too_large(&format!(
            "the schema has more than {MAX_SUBSCHEMAS} subschemas, or is nested more than \
             {MAX_LEVELS} levels deep"
        )));
    }
    counts.size.add_subschema(entries, location.path_bytes)?;
    let is_string = |keyword| entries.get(keyword).is_some_and(Value::is_string);
    counts.has_named_subschemas |= location.level > 0 && (is_string("$id") || is_string("id"));
    for (keyword, value) in entries.iter_mut() {
        let kind = SubschemaKind::from_keyword(keyword);
        match (keyword.as_str(), kind, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", _, Value::String(reference)) => {
                counts.references.push(reference.clone());
                if counts.references.len() > MAX_REFERENCES {
                    let reason = format!("the schema has more than {MAX_REFERENCES} references");
                    return Err(too_large(&reason));
                }
            }
            // The compiler rejects a pattern that is not a string.
            ("pattern", _, pattern) => counts.add_pattern(pattern.as_str().unwrap_or_default())?,
            (_, SubschemaKind::Schema | SubschemaKind::SchemaOrList, schema @ Value::Object(_)) => {
                instrument_part(schema, location.descend([keyword, ""]), counts)?;
            }
            (_, SubschemaKind::List | SubschemaKind::SchemaOrList, Value::Array(schemas)) => {
                for schema in schemas {
                    instrument_part(schema, location.descend([keyword, "00000"]), counts)?;
                }
            }
            (keyword, SubschemaKind::Map, Value::Object(schemas)) => {
                if keyword == "patternProperties" {
                    for pattern in schemas.keys() {
                        counts.add_pattern(pattern)?;
                        counts.patterns.add_name_pattern(pattern);
                    }
                }
                for (name, schema) in schemas {
                    instrument_part(schema, location.descend([keyword, name]), counts)?;
                }
            }
            _ => {}
        }
    }
    if location.overrides_siblings && entries.get("$ref").is_some_and(Value::is_string) {
        move_ref_to_all_of(entries);
    }
    add_counter(entries);
    Ok(())
}

impl SchemaCounts {
    fn add_pattern(&mut self, pattern: &str) -> Result<(), SchemaError> {
        self.patterns.add(pattern);
        if self.patterns.count > MAX_PATTERNS {
            let reason = format!("the schema has more than {MAX_PATTERNS} patterns");
            return Err(too_large(&reason));
        }
        if self.counted_patterns.insert(pattern.to_owned()) {
            self.size.add_pattern(pattern, &mut self.pattern_sizes)?;
        }
        Ok(())
    }
}

/// Moves a `$ref` that overrides its siblings into `allOf`, beside a step counter.
fn move_ref_to_all_of(entries: &mut Map<String, Value>) {
    let reference = entries.shift_remove("$ref");
    let is_retained = |keyword: &str| matches!(keyword, "$schema" | "definitions" | "$defs");
    entries.retain(|keyword, _| is_retained(keyword));
    let all_of = json!([{ STEP_KEYWORD: true }, { "$ref": reference }]);
    entries.insert("allOf".to_owned(), all_of);
}

fn add_counter(entries: &mut Map<String, Value>) {
    // An `allOf` that is not a list gets no counter, because the compiler rejects the schema.
    if !entries.get("allOf").is_none_or(Value::is_array) {
        return;
    }
    let pattern = entries.shift_remove("pattern");
    let all_of = entries.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all_of) = all_of {
        all_of.push(json!({ STEP_KEYWORD: true }));
        all_of.extend(pattern.map(|pattern| json!({ "pattern": pattern })));
    }
}

/// Replaces the patterns of a schema with simple patterns, so that a check of the other keywords
/// takes little time. Returns `None` if a reference leads into `patternProperties`, because the
/// target of the reference could not be found under a changed pattern.
pub(super) fn replace_patterns(schema: &Value) -> Option<Value> {
    Some(match schema {
        Value::Array(items) => {
            let simplified_items = items.iter().map(replace_patterns);
            Value::Array(simplified_items.collect::<Option<_>>()?)
        }
        Value::Object(entries) => {
            let simplified_members = entries.iter().map(|(keyword, value)| {
                let simple_value = match (keyword.as_str(), value) {
                    ("pattern", Value::String(_)) => json!("^a"),
                    ("patternProperties", Value::Object(schemas_by_pattern)) => {
                        let renamed_patterns =
                            schemas_by_pattern
                                .values()
                                .enumerate()
                                .map(|(index, schema)| {
                                    Some((format!("^p{index}"), replace_patterns(schema)?))
                                });
                        Value::Object(renamed_patterns.collect::<Option<_>>()?)
                    }
                    ("$ref" | "$dynamicRef", Value::String(target))
                        if target.contains("patternProperties") =>
                    {
                        return None;
                    }
                    (_, value) => replace_patterns(value)?,
                };
                Some((keyword.clone(), simple_value))
            });
            Value::Object(simplified_members.collect::<Option<_>>()?)
        }
        value => value.clone(),
    })
}

/// Restores the original form of an instrumented subschema.
pub(super) fn remove_counters(part: &mut Value) {
    match part {
        Value::Array(parts) => parts.iter_mut().for_each(remove_counters),
        Value::Object(entries) => {
            entries.values_mut().for_each(remove_counters);
            let Some(Value::Array(all_of)) = entries.get_mut("allOf") else {
                return;
            };
            let is_counter = |part: &Value| part.get(STEP_KEYWORD).is_some();
            let Some(counter_index) = all_of.iter().position(is_counter) else {
                return;
            };
            // All items of `allOf` after the counter were moved there by `instrument`.
            let moved_schemas = all_of.split_off(counter_index);
            if all_of.is_empty() {
                entries.shift_remove("allOf");
            }
            for part in moved_schemas {
                let Value::Object(mut moved_keywords) = part else {
                    continue;
                };
                moved_keywords.shift_remove(STEP_KEYWORD);
                entries.append(&mut moved_keywords);
            }
        }
        _ => {}
    }
}

/// Returns the target of a reference if the target is at a location where schemas do not normally
/// occur. Returns `None` for references by name, which resolve only to schemas, and for references
/// to the JSON Schema meta-schemas.
fn unusual_target(reference: &str) -> Result<Option<String>, SchemaError> {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let mut origins = ["https://json-schema.org/", "http://json-schema.org/"].into_iter();
    let is_meta_schema = origins.any(|origin| document.starts_with(origin));
    if is_meta_schema || !fragment.starts_with('/') {
        return Ok(None);
    }
    let pointer = percent_decode(fragment).ok_or_else(|| invalid("a $ref is not a valid URL"))?;
    let mut keys = pointer.split('/').skip(1);
    while let Some(keyword) = keys.next() {
        let is_schema = match SubschemaKind::from_keyword(keyword) {
            SubschemaKind::Schema => true,
            SubschemaKind::List | SubschemaKind::Map => keys.next().is_some(),
            SubschemaKind::SchemaOrList | SubschemaKind::NoSchema => false,
        };
        if !is_schema {
            return Ok(Some(pointer.into_owned()));
        }
    }
    Ok(None)
}

fn instrument_unusual_target(
    root: &mut Value,
    pointer: &str,
    location: SubschemaLocation,
    counts: &mut SchemaCounts,
) -> Result<(), SchemaError> {
    let Some(target) = root.pointer_mut(pointer) else {
        let reason = "a $ref points to a location that the schema does not have";
        return Err(invalid(reason));
    };
    let all_of = target.get("allOf").and_then(Value::as_array);
    if all_of.is_some_and(|all| all.iter().any(|part| part.get(STEP_KEYWORD).is_some())) {
        return Ok(());
    }
    // The validator compares `const` and `enum` with values, so these keywords must not contain
    // step counters.
    let mut keys = pointer.split('/');
    if keys.any(|key| matches!(key, "const" | "enum")) {
        return Err(invalid("a $ref points to something that is not a schema"));
    }
    instrument_part(target, location, counts)
}

pub(super) fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut encoded_bytes = text.bytes();
    while let Some(byte) = encoded_bytes.next() {
        if byte == b'%' {
            let mut next_digit = || char::from(encoded_bytes.next()?).to_digit(16);
            let value = next_digit()? * 16 + next_digit()?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn invalid(reason: &str) -> SchemaError {
    SchemaError::new(SchemaErrorKind::Invalid, reason)
}

pub(super) fn too_large(reason: &str) -> SchemaError {
    SchemaError::new(SchemaErrorKind::TooLarge, reason)
}
