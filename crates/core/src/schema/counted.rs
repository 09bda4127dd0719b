//! A schema whose every part counts the steps of a check, and the limits on its size.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::SchemaError;

/// The keyword that counts a step.
pub(super) const STEP: &str = "x-pillion-step";

/// Schemas in a schema at most.
const MOST_PARTS: usize = 50_000;
/// Levels of schemas in schemas. What comes as JSON has no more anyway.
const MOST_LEVELS: usize = 128;
/// References at most: the compiler follows a chain of them on the stack.
const MOST_REFERENCES: usize = 1_000;
/// Regular expressions at most, as each takes its time to compile.
const MOST_PATTERNS: usize = 512;

#[derive(Default)]
struct Counts {
    parts: usize,
    references: Vec<String>,
    patterns: usize,
}

/// Where a part is.
#[derive(Clone, Copy, Default)]
struct Place {
    level: usize,
    /// Up to draft 7 a reference stands alone: what is beside it does not count.
    references_stand_alone: bool,
}

/// `schema` with a counter in each of its parts.
///
/// It stands in `allOf`: that is looked at before all that multiplies the work of a check
/// (`anyOf`, `oneOf`, `not`, `if`, references), and the places that references name stay
/// what they were. A part that fails before its `allOf` has multiplied nothing.
///
/// # Errors
/// When the schema is too large, or refers to a place that is no schema.
pub(super) fn counted(schema: &Value) -> Result<Value, SchemaError> {
    let mut counts = Counts::default();
    let mut counted = schema.clone();
    visit(&mut counted, Place::default(), &mut counts)?;
    for reference in &counts.references {
        if !leads_to_schema(&counted, reference) {
            return Err(refused("a reference leads to a place that is no schema"));
        }
    }
    Ok(counted)
}

fn visit(schema: &mut Value, mut place: Place, counts: &mut Counts) -> Result<(), SchemaError> {
    let Value::Object(entries) = schema else {
        return Ok(());
    };
    counts.parts += 1;
    if counts.parts > MOST_PARTS || place.level > MOST_LEVELS {
        return Err(refused("it has too many parts"));
    }
    if let Some(Value::String(dialect)) = entries.get("$schema") {
        place.references_stand_alone = dialect.contains("draft-0");
    }
    let below = Place {
        level: place.level + 1,
        ..place
    };
    for (keyword, value) in entries.iter_mut() {
        match (keyword.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                counts.references.push(reference.clone());
                if counts.references.len() > MOST_REFERENCES {
                    return Err(refused("it has too many references"));
                }
            }
            ("pattern", _) => counts.pattern(1)?,
            (
                "additionalItems"
                | "additionalProperties"
                | "contains"
                | "contentSchema"
                | "else"
                | "if"
                | "items"
                | "not"
                | "propertyNames"
                | "then"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema @ Value::Object(_),
            ) => visit(schema, below, counts)?,
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                for schema in schemas {
                    visit(schema, below, counts)?;
                }
            }
            (
                keyword @ ("$defs" | "definitions" | "dependencies" | "dependentSchemas"
                | "patternProperties" | "properties"),
                Value::Object(named),
            ) => {
                if keyword == "patternProperties" {
                    counts.pattern(named.len())?;
                }
                for schema in named.values_mut() {
                    visit(schema, below, counts)?;
                }
            }
            _ => {}
        }
    }
    if place.references_stand_alone && entries.get("$ref").is_some_and(Value::is_string) {
        set_aside(entries);
    }
    count_here(entries);
    Ok(())
}

impl Counts {
    fn pattern(&mut self, more: usize) -> Result<(), SchemaError> {
        self.patterns += more;
        if self.patterns > MOST_PATTERNS {
            return Err(refused("it has too many patterns"));
        }
        Ok(())
    }
}

/// Makes a reference that stands alone one of `allOf`, where a counter can be beside it.
fn set_aside(entries: &mut Map<String, Value>) {
    let reference = entries.shift_remove("$ref");
    let holds_others = |keyword: &str| matches!(keyword, "$schema" | "definitions" | "$defs");
    entries.retain(|keyword, _| holds_others(keyword));
    let all_of = json!([{ STEP: true }, { "$ref": reference }]);
    entries.insert("allOf".to_owned(), all_of);
}

fn count_here(entries: &mut Map<String, Value>) {
    let all_of = entries.entry("allOf").or_insert_with(|| json!([]));
    // One of another type is left for the compiler to refuse.
    if let Value::Array(all_of) = all_of {
        all_of.push(json!({ STEP: true }));
    }
}

/// Whether the schema at a reference counts: one at a place where no schema belongs, such
/// as in `default`, would not.
fn leads_to_schema(root: &Value, reference: &str) -> bool {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let is_meta_schema = ["https://json-schema.org/", "http://json-schema.org/"]
        .iter()
        .any(|origin| document.starts_with(origin));
    // Anchors and identifiers are looked for in schemas alone.
    if is_meta_schema || !fragment.starts_with('/') {
        return true;
    }
    let Some(pointer) = percent_decoded(fragment) else {
        return false;
    };
    match root.pointer(&pointer) {
        Some(Value::Bool(_)) => true,
        Some(target) => {
            let all_of = target.get("allOf").and_then(Value::as_array);
            all_of.is_some_and(|all| all.iter().any(|part| part.get(STEP).is_some()))
        }
        None => false,
    }
}

fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
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

fn refused(reason: &str) -> SchemaError {
    SchemaError {
        path: String::new(),
        reason: reason.to_owned(),
    }
}
