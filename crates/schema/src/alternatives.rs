//! Finds the schemas that apply to one location in a value, as alternatives.

use serde_json::{Map, Value};

/// JSON types, as bits.
pub(super) type JsonTypes = u8;
pub(super) const NULL: JsonTypes = 1;
pub(super) const OBJECT: JsonTypes = 2;
pub(super) const ARRAY: JsonTypes = 4;
pub(super) const BOOLEAN: JsonTypes = 8;
const NUMBER: JsonTypes = 16;
pub(super) const STRING: JsonTypes = 32;
const ANY: JsonTypes = 63;

/// Schemas that all apply.
type Alternative<'s> = Vec<&'s Map<String, Value>>;
/// Alternatives, at least one of which applies.
type Alternatives<'s> = Vec<Alternative<'s>>;

/// Maximum number of alternatives at one location; with more, any value is assumed to be allowed.
const MAX_ALTERNATIVES: usize = 64;
/// Maximum nesting of schemas at one location, including references.
const MAX_LEVELS: usize = 32;
/// Maximum number of schemas that a reader visits for one value.
pub(super) const MAX_STEPS: u32 = 100_000;
/// Number of comparisons that count as one step.
const COMPARISONS_PER_STEP: usize = 16;

/// Reads a schema conservatively: parts that it does not understand (patterns, conditions, schema
/// identifiers) count as allowing any value.
pub(super) struct SchemaReader<'s> {
    root: &'s Value,
    steps_left: u32,
}

/// The alternatives that apply to one location in a value.
pub(super) struct SchemaLocation<'s>(Alternatives<'s>);

impl<'s> SchemaReader<'s> {
    /// Makes a reader that takes at most `most_steps`. After the last step, the reader treats every
    /// schema as allowing any value.
    pub(super) fn new(root: &'s Value, most_steps: u32) -> Self {
        Self {
            root,
            steps_left: most_steps,
        }
    }

    /// Returns whether all steps are used up.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps_left == 0
    }

    /// Returns the location to which `schema` alone applies.
    pub(super) fn place(&mut self, schema: &'s Value) -> SchemaLocation<'s> {
        SchemaLocation(self.expand(schema, 0))
    }

    /// Returns the location of a member of an object at `place`.
    pub(super) fn member(&mut self, place: &SchemaLocation<'s>, name: &str) -> SchemaLocation<'s> {
        self.below(place, |reader, schema| {
            reader.alternatives_of_member(schema, name)
        })
    }

    /// Returns the location of an element of an array at `place`.
    pub(super) fn element(
        &mut self,
        place: &SchemaLocation<'s>,
        index: usize,
    ) -> SchemaLocation<'s> {
        self.below(place, |reader, schema| {
            let tuple = schema.get("prefixItems").or(schema.get("items"));
            let tuple = tuple.and_then(Value::as_array);
            let own = tuple.and_then(|tuple| tuple.get(index));
            let others = schema.get("items").filter(|items| !items.is_array());
            match own.or(others) {
                Some(schema) => reader.expand(schema, 1),
                None => anything(),
            }
        })
    }

    fn below(
        &mut self,
        place: &SchemaLocation<'s>,
        mut by_one: impl FnMut(&mut Self, &'s Map<String, Value>) -> Alternatives<'s>,
    ) -> SchemaLocation<'s> {
        let mut found = Alternatives::new();
        for alternative in &place.0 {
            let mut all = anything();
            for &schema in alternative {
                let one = by_one(self, schema);
                all = self.both(&all, &one);
            }
            found.extend(all);
        }
        SchemaLocation(few(found))
    }

    fn alternatives_of_member(
        &mut self,
        schema: &'s Map<String, Value>,
        name: &str,
    ) -> Alternatives<'s> {
        let known = schema.get("properties").and_then(|known| known.get(name));
        if let Some(known) = known {
            return self.expand(known, 1);
        }
        let mut either = match schema.get("additionalProperties") {
            Some(others) => self.expand(others, 1),
            None => anything(),
        };
        // Includes all pattern properties, whether or not the name matches.
        let by_pattern = schema.get("patternProperties").and_then(Value::as_object);
        for schema in by_pattern.into_iter().flat_map(Map::values) {
            either.extend(self.expand(schema, 1));
        }
        few(either)
    }

    fn expand(&mut self, schema: &'s Value, level: usize) -> Alternatives<'s> {
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return Alternatives::new(),
            _ => return anything(),
        };
        if level > MAX_LEVELS || !self.step() {
            return anything();
        }
        let mut found = vec![vec![schema]];
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = match target_of(self.root, reference) {
                Some(target) => self.expand(target, level + 1),
                None => anything(),
            };
            found = self.both(&found, &target);
        }
        for part in list(schema, "allOf").unwrap_or_default() {
            let part = self.expand(part, level + 1);
            found = self.both(&found, &part);
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(parts) = list(schema, keyword) else {
                continue;
            };
            let mut either = Alternatives::new();
            for part in parts {
                either.extend(self.expand(part, level + 1));
            }
            found = self.both(&found, &few(either));
        }
        found
    }

    fn both(&mut self, one: &Alternatives<'s>, other: &Alternatives<'s>) -> Alternatives<'s> {
        if one.len() * other.len() > MAX_ALTERNATIVES {
            return anything();
        }
        let mut found = Alternatives::with_capacity(one.len() * other.len());
        for one in one {
            for other in other {
                if !self.step() {
                    return anything();
                }
                found.push(one.iter().chain(other).copied().collect());
            }
        }
        found
    }

    /// Returns whether any alternative requires this member. Also true if all steps are used up.
    pub(super) fn requires(&mut self, place: &SchemaLocation<'s>, name: &str) -> bool {
        place.0.iter().flatten().any(|schema| {
            let required = list(schema, "required").unwrap_or_default();
            !self.compare(required.len()) || required.iter().any(|other| other == name)
        })
    }

    /// Removes the alternatives that this object cannot match, unless that would remove all.
    pub(super) fn narrow(&mut self, place: &mut SchemaLocation<'s>, value: &Map<String, Value>) {
        if place.0.len() < 2 {
            return;
        }
        let mut kept = place.0.clone();
        kept.retain(|alternative| {
            alternative
                .iter()
                .all(|schema| self.may_match(schema, value))
        });
        if !kept.is_empty() {
            place.0 = kept;
        }
    }

    /// Returns whether the object can match: it has the required members, and its strings are
    /// allowed by `const` and `enum`.
    fn may_match(&mut self, schema: &Map<String, Value>, value: &Map<String, Value>) -> bool {
        let properties = schema.get("properties").and_then(Value::as_object);
        let has_words = properties.is_none_or(|properties| {
            value.iter().all(|(name, word)| {
                let Some(property) = properties.get(name).filter(|_| word.is_string()) else {
                    return true;
                };
                let is_other = property.get("const").is_some_and(|only| only != word);
                let allowed = property.get("enum").and_then(Value::as_array);
                !is_other
                    && allowed.is_none_or(|allowed| {
                        !self.compare(allowed.len()) || allowed.contains(word)
                    })
            })
        });
        let needed = list(schema, "required").unwrap_or_default();
        let mut needed_names = needed.iter().filter_map(Value::as_str);
        has_words
            && types_of(schema) & OBJECT != 0
            && (!self.compare(value.len().max(needed.len()))
                || needed_names.all(|name| value.contains_key(name)))
    }

    fn step(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left > 0
    }

    /// Uses the steps of comparing a value with `count` others.
    fn compare(&mut self, count: usize) -> bool {
        let steps = u32::try_from(count / COMPARISONS_PER_STEP).unwrap_or(u32::MAX);
        self.steps_left = self.steps_left.saturating_sub(steps);
        self.steps_left > 0
    }

    /// Returns the number of remaining steps.
    pub(super) fn steps_left(&self) -> u32 {
        self.steps_left
    }
}

impl SchemaLocation<'_> {
    /// Returns the types that a value at this location may have.
    pub(super) fn types(&self) -> JsonTypes {
        let of = |alternative: &Alternative<'_>| {
            let types = alternative.iter().map(|schema| types_of(schema));
            types.fold(ANY, |all, one| all & one)
        };
        self.0.iter().map(of).fold(0, |all, one| all | one)
    }
}

fn anything<'s>() -> Alternatives<'s> {
    vec![Alternative::new()]
}

fn few(alternatives: Alternatives<'_>) -> Alternatives<'_> {
    if alternatives.len() > MAX_ALTERNATIVES {
        return anything();
    }
    alternatives
}

fn list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> Option<&'s [Value]> {
    schema.get(keyword)?.as_array().map(Vec::as_slice)
}

fn types_of(schema: &Map<String, Value>) -> JsonTypes {
    let mut types = match schema.get("type") {
        Some(Value::String(name)) => type_named(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(0, |all, name| all | type_named(name)),
        _ => ANY,
    };
    if let Some(value) = schema.get("const") {
        types &= type_of(value);
    }
    if let Some(values) = list(schema, "enum") {
        types &= values.iter().fold(0, |all, value| all | type_of(value));
    }
    types
}

fn type_named(name: &str) -> JsonTypes {
    match name {
        "null" => NULL,
        "object" => OBJECT,
        "array" => ARRAY,
        "boolean" => BOOLEAN,
        "number" | "integer" => NUMBER,
        "string" => STRING,
        _ => 0,
    }
}

pub(super) fn type_of(value: &Value) -> JsonTypes {
    match value {
        Value::Null => NULL,
        Value::Object(_) => OBJECT,
        Value::Array(_) => ARRAY,
        Value::Bool(_) => BOOLEAN,
        Value::Number(_) => NUMBER,
        Value::String(_) => STRING,
    }
}

/// Returns the target of a reference within the document.
fn target_of<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let pointer = super::counted::percent_decoded(reference.strip_prefix('#')?)?;
    root.pointer(&pointer)
}
