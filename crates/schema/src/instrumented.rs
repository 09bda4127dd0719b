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
const MAX_PARTS: usize = 50_000;
/// Maximum nesting of subschemas. Parsed JSON is never nested more deeply.
const MAX_LEVELS: usize = 128;
/// Maximum number of references. The compiler follows chains of references on the stack.
const MAX_REFERENCES: usize = 1_000;
/// Maximum number of regular expressions, each of which takes time to compile.
const MAX_PATTERNS: usize = 512;

/// A schema with step counters, and measures of the work to compile the schema.
pub(super) struct InstrumentedSchema {
    /// The schema with its step counters.
    pub(super) schema: Value,
    /// Number of subschemas in the schema.
    pub(super) parts: usize,
    pub(super) patterns: Patterns,
    pub(super) size: CompiledSize,
}

#[derive(Default)]
struct SchemaCounts {
    parts: usize,
    references: Vec<String>,
    patterns: Patterns,
    /// The patterns that are already counted: the validator compiles equal patterns once.
    seen_patterns: HashSet<String>,
    pattern_sizes: PatternSizes,
    size: CompiledSize,
    /// Whether a subschema has an identifier. References in such a subschema are relative to the
    /// identifier.
    has_named_subschemas: bool,
}

/// The location of a subschema, as far as instrumenting the subschema depends on it.
#[derive(Clone, Copy, Default)]
struct SubschemaLocation {
    level: usize,
    /// Length of the JSON pointer to this location, in bytes.
    path_bytes: usize,
    /// Whether `$ref` overrides its sibling keywords, as up to draft 7.
    references_stand_alone: bool,
}

impl SubschemaLocation {
    /// Returns this location with the dialect that `schema` declares, if it declares one.
    fn within(self, schema: &Value) -> Self {
        match schema.get("$schema").and_then(Value::as_str) {
            Some(dialect) => Self {
                references_stand_alone: dialect.contains("draft-0"),
                ..self
            },
            None => self,
        }
    }

    /// Returns the location of a subschema under these keys.
    fn below(self, keys: [&str; 2]) -> Self {
        let bytes: usize = keys.iter().map(|key| key.len() + 1).sum();
        Self {
            level: self.level + 1,
            path_bytes: self.path_bytes + bytes,
            ..self
        }
    }
}

/// Returns `schema` with a step counter in each subschema, its patterns and its compiled size.
///
/// The counter is in `allOf`, which the validator evaluates before all keywords that multiply the
/// work of a check (`anyOf`, `oneOf`, `not`, `if`, references), and which leaves the targets of
/// references in place. A subschema that fails before its `allOf` has multiplied no work. A
/// `pattern`, which may take long by itself, is moved behind the counter.
///
/// # Errors
/// The schema is too large, or a reference leads to a location that does not exist or is not a
/// schema.
pub(super) fn instrument(schema: &Value) -> Result<InstrumentedSchema, SchemaError> {
    let mut counts = SchemaCounts::default();
    let mut instrumented = schema.clone();
    visit(&mut instrumented, SubschemaLocation::default(), &mut counts)?;
    // A reference can use a value at a location that is not a schema as a schema.
    let location = SubschemaLocation::default().within(schema);
    let mut has_unusual_targets = false;
    let mut followed = 0;
    while let Some(reference) = counts.references.get(followed) {
        followed += 1;
        if let Some(pointer) = unusual_target(reference)? {
            has_unusual_targets = true;
            let target = location.below([&pointer, ""]);
            visit_unusual_target(&mut instrumented, &pointer, target, &mut counts)?;
        }
    }
    if has_unusual_targets && counts.has_named_subschemas {
        // The reference is relative to one of several identifiers, so its base is ambiguous.
        return Err(invalid("a $ref points to something that is not a schema"));
    }
    Ok(InstrumentedSchema {
        schema: instrumented,
        parts: counts.parts,
        patterns: counts.patterns,
        size: counts.size,
    })
}

fn visit(
    schema: &mut Value,
    mut location: SubschemaLocation,
    counts: &mut SchemaCounts,
) -> Result<(), SchemaError> {
    location = location.within(schema);
    let Value::Object(entries) = schema else {
        return Ok(());
    };
    counts.parts += 1;
    if counts.parts > MAX_PARTS || location.level > MAX_LEVELS {
        return Err(too_large(
            "the schema has too many subschemas or is nested too deeply",
        ));
    }
    counts.size.add_part(entries, location.path_bytes)?;
    let is_name = |keyword| entries.get(keyword).is_some_and(Value::is_string);
    counts.has_named_subschemas |= location.level > 0 && (is_name("$id") || is_name("id"));
    for (keyword, value) in entries.iter_mut() {
        match (
            keyword.as_str(),
            SubschemaKind::from_keyword(keyword),
            value,
        ) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", _, Value::String(reference)) => {
                counts.references.push(reference.clone());
                if counts.references.len() > MAX_REFERENCES {
                    return Err(too_large("the schema has too many references"));
                }
            }
            // The compiler rejects a pattern that is not a string.
            ("pattern", _, pattern) => counts.add_pattern(pattern.as_str().unwrap_or_default())?,
            (_, SubschemaKind::Schema | SubschemaKind::Either, schema @ Value::Object(_)) => {
                visit(schema, location.below([keyword, ""]), counts)?;
            }
            (_, SubschemaKind::List | SubschemaKind::Either, Value::Array(schemas)) => {
                for schema in schemas {
                    visit(schema, location.below([keyword, "00000"]), counts)?;
                }
            }
            (keyword, SubschemaKind::Named, Value::Object(named)) => {
                if keyword == "patternProperties" {
                    for pattern in named.keys() {
                        counts.add_pattern(pattern)?;
                        counts.patterns.add_for_names(pattern);
                    }
                }
                for (name, schema) in named {
                    visit(schema, location.below([keyword, name]), counts)?;
                }
            }
            _ => {}
        }
    }
    if location.references_stand_alone && entries.get("$ref").is_some_and(Value::is_string) {
        move_ref_to_all_of(entries);
    }
    add_counter(entries);
    Ok(())
}

impl SchemaCounts {
    fn add_pattern(&mut self, pattern: &str) -> Result<(), SchemaError> {
        self.patterns.add(pattern);
        if self.patterns.count > MAX_PATTERNS {
            return Err(too_large("the schema has too many patterns"));
        }
        if self.seen_patterns.insert(pattern.to_owned()) {
            self.size.add_pattern(pattern, &mut self.pattern_sizes)?;
        }
        Ok(())
    }
}

/// Moves a `$ref` that overrides its siblings into `allOf`, beside a step counter.
fn move_ref_to_all_of(entries: &mut Map<String, Value>) {
    let reference = entries.shift_remove("$ref");
    let holds_others = |keyword: &str| matches!(keyword, "$schema" | "definitions" | "$defs");
    entries.retain(|keyword, _| holds_others(keyword));
    let all_of = json!([{ STEP_KEYWORD: true }, { "$ref": reference }]);
    entries.insert("allOf".to_owned(), all_of);
}

fn add_counter(entries: &mut Map<String, Value>) {
    // The compiler rejects an `allOf` of another type.
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

/// Replaces the patterns of a schema by patterns that compile at once, for a check of everything
/// else. Returns `None` if a reference leads to a pattern.
pub(super) fn without_patterns(schema: &Value) -> Option<Value> {
    Some(match schema {
        Value::Array(items) => {
            let plain = items.iter().map(without_patterns);
            Value::Array(plain.collect::<Option<_>>()?)
        }
        Value::Object(entries) => {
            let plain = entries.iter().map(|(keyword, value)| {
                let plain_value = match (keyword.as_str(), value) {
                    ("pattern", Value::String(_)) => json!("^a"),
                    ("patternProperties", Value::Object(named)) => {
                        let renamed = named.values().enumerate().map(|(nth, schema)| {
                            Some((format!("^p{nth}"), without_patterns(schema)?))
                        });
                        Value::Object(renamed.collect::<Option<_>>()?)
                    }
                    ("$ref" | "$dynamicRef", Value::String(target))
                        if target.contains("patternProperties") =>
                    {
                        return None;
                    }
                    (_, value) => without_patterns(value)?,
                };
                Some((keyword.clone(), plain_value))
            });
            Value::Object(plain.collect::<Option<_>>()?)
        }
        other => other.clone(),
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
            let Some(counter) = all_of.iter().position(is_counter) else {
                return;
            };
            // Only parts that `instrument` has moved follow the counter.
            let moved = all_of.split_off(counter);
            if all_of.is_empty() {
                entries.shift_remove("allOf");
            }
            for part in moved {
                let Value::Object(mut moved) = part else {
                    continue;
                };
                moved.shift_remove(STEP_KEYWORD);
                entries.append(&mut moved);
            }
        }
        _ => {}
    }
}

/// Returns the target of a reference if the target is not normally a schema. Returns `None` for
/// references by name, which resolve only to schemas, and for references to the JSON Schema
/// meta-schemas.
fn unusual_target(reference: &str) -> Result<Option<String>, SchemaError> {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let is_meta_schema = ["https://json-schema.org/", "http://json-schema.org/"]
        .iter()
        .any(|origin| document.starts_with(origin));
    if is_meta_schema || !fragment.starts_with('/') {
        return Ok(None);
    }
    let pointer = percent_decoded(fragment).ok_or_else(|| invalid("a $ref is not a valid URL"))?;
    let mut keys = pointer.split('/').skip(1);
    while let Some(keyword) = keys.next() {
        let leads_on = match SubschemaKind::from_keyword(keyword) {
            SubschemaKind::Schema => true,
            SubschemaKind::List | SubschemaKind::Named => keys.next().is_some(),
            SubschemaKind::Either | SubschemaKind::Nothing => false,
        };
        if !leads_on {
            return Ok(Some(pointer.into_owned()));
        }
    }
    Ok(None)
}

fn visit_unusual_target(
    root: &mut Value,
    pointer: &str,
    location: SubschemaLocation,
    counts: &mut SchemaCounts,
) -> Result<(), SchemaError> {
    let Some(target) = root.pointer_mut(pointer) else {
        return Err(invalid("a $ref points to nothing"));
    };
    let all_of = target.get("allOf").and_then(Value::as_array);
    if all_of.is_some_and(|all| all.iter().any(|part| part.get(STEP_KEYWORD).is_some())) {
        return Ok(());
    }
    // The validator compares `const` and `enum` with values, so these keywords must not contain
    // step counters.
    if pointer
        .split('/')
        .any(|key| matches!(key, "const" | "enum"))
    {
        return Err(invalid("a $ref points to something that is not a schema"));
    }
    visit(target, location, counts)
}

pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let value = digit()? * 16 + digit()?;
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
