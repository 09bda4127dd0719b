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

/// Schemas that a value must all match.
type Alternative<'s> = Vec<&'s Map<String, Value>>;
/// Alternatives, of which a value must match at least one.
type Alternatives<'s> = Vec<Alternative<'s>>;

/// Maximum number of alternatives at one location; with more, any value is assumed to be allowed.
const MAX_ALTERNATIVES: usize = 64;
/// Maximum nesting of schemas at one location, including references.
const MAX_LEVELS: usize = 32;
/// Maximum number of schemas that a reader visits for one value.
pub(super) const MAX_STEPS: u32 = 100_000;
/// Number of comparisons that count as one step.
const COMPARISONS_PER_STEP: usize = 16;

/// Reads a schema conservatively: parts that the reader does not understand (patterns, conditions,
/// schema identifiers) count as allowing any value.
pub(super) struct SchemaReader<'s> {
    root: &'s Value,
    steps_left: u32,
}

/// The alternatives that apply to one location in a value.
pub(super) struct ValueLocation<'s>(Alternatives<'s>);

impl<'s> SchemaReader<'s> {
    /// Creates a reader that takes at most `max_steps`. After the last step, the reader treats every
    /// schema as allowing any value.
    pub(super) fn new(root: &'s Value, max_steps: u32) -> Self {
        Self {
            root,
            steps_left: max_steps,
        }
    }

    /// Returns whether all steps are used up.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps_left == 0
    }

    /// Returns the location to which `schema` alone applies.
    pub(super) fn location(&mut self, schema: &'s Value) -> ValueLocation<'s> {
        ValueLocation(self.expand(schema, 0))
    }

    /// Returns the location of a member of an object at `location`.
    pub(super) fn member(&mut self, location: &ValueLocation<'s>, name: &str) -> ValueLocation<'s> {
        self.descend(location, |reader, schema| {
            reader.member_alternatives(schema, name)
        })
    }

    /// Returns the location of an element of an array at `location`.
    pub(super) fn element(
        &mut self,
        location: &ValueLocation<'s>,
        index: usize,
    ) -> ValueLocation<'s> {
        self.descend(location, |reader, schema| {
            let items = schema.get("items");
            let tuple = schema
                .get("prefixItems")
                .or(items)
                .and_then(Value::as_array);
            let item = tuple.and_then(|tuple| tuple.get(index));
            match item.or(items.filter(|items| !items.is_array())) {
                Some(schema) => reader.expand(schema, 1),
                None => anything(),
            }
        })
    }

    fn descend(
        &mut self,
        location: &ValueLocation<'s>,
        mut alternatives_in: impl FnMut(&mut Self, &'s Map<String, Value>) -> Alternatives<'s>,
    ) -> ValueLocation<'s> {
        let mut found = Alternatives::new();
        for alternative in &location.0 {
            let mut all = anything();
            for &schema in alternative {
                let one = alternatives_in(self, schema);
                all = self.combine(&all, &one);
            }
            found.extend(all);
        }
        ValueLocation(limit(found))
    }

    fn member_alternatives(
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
        // The schemas of all pattern properties are included, whether or not the name matches the
        // pattern.
        let by_pattern = schema.get("patternProperties").and_then(Value::as_object);
        for schema in by_pattern.into_iter().flat_map(Map::values) {
            either.extend(self.expand(schema, 1));
        }
        limit(either)
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
            let target = match reference_target(self.root, reference) {
                Some(target) => self.expand(target, level + 1),
                None => anything(),
            };
            found = self.combine(&found, &target);
        }
        for part in list(schema, "allOf").unwrap_or_default() {
            let part = self.expand(part, level + 1);
            found = self.combine(&found, &part);
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(parts) = list(schema, keyword) else {
                continue;
            };
            let mut either = Alternatives::new();
            for part in parts {
                either.extend(self.expand(part, level + 1));
            }
            found = self.combine(&found, &limit(either));
        }
        found
    }

    /// Returns the combinations of an alternative of `one` with an alternative of `other`.
    fn combine(&mut self, one: &Alternatives<'s>, other: &Alternatives<'s>) -> Alternatives<'s> {
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

    /// Returns whether any alternative requires the member `name`. Also returns `true` if all steps
    /// are used up.
    pub(super) fn requires(&mut self, location: &ValueLocation<'s>, name: &str) -> bool {
        location.0.iter().flatten().any(|schema| {
            let required = list(schema, "required").unwrap_or_default();
            !self.compare(required.len()) || required.iter().any(|other| other == name)
        })
    }

    /// Removes the alternatives that this object cannot match, unless no alternative would be left.
    pub(super) fn narrow(&mut self, location: &mut ValueLocation<'s>, value: &Map<String, Value>) {
        if location.0.len() < 2 {
            return;
        }
        let mut matching = location.0.clone();
        matching.retain(|alternative| {
            alternative
                .iter()
                .all(|schema| self.may_match(schema, value))
        });
        if !matching.is_empty() {
            location.0 = matching;
        }
    }

    /// Returns whether the object can match the schema: the object has the required members, and
    /// `const` and `enum` allow the object's strings.
    fn may_match(&mut self, schema: &Map<String, Value>, value: &Map<String, Value>) -> bool {
        let properties = schema.get("properties").and_then(Value::as_object);
        let strings_match = properties.is_none_or(|properties| {
            value.iter().all(|(name, member)| {
                let Some(property) = properties.get(name).filter(|_| member.is_string()) else {
                    return true;
                };
                let is_other = property.get("const").is_some_and(|only| only != member);
                let allowed = property.get("enum").and_then(Value::as_array);
                !is_other
                    && allowed.is_none_or(|allowed| {
                        !self.compare(allowed.len()) || allowed.contains(member)
                    })
            })
        });
        let required = list(schema, "required").unwrap_or_default();
        let mut required_names = required.iter().filter_map(Value::as_str);
        strings_match
            && allowed_types(schema) & OBJECT != 0
            && (!self.compare(value.len().max(required.len()))
                || required_names.all(|name| value.contains_key(name)))
    }

    fn step(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left > 0
    }

    /// Uses the steps of comparing a value with `count` other values.
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

impl ValueLocation<'_> {
    /// Returns the types that a value at this location may have.
    pub(super) fn types(&self) -> JsonTypes {
        let alternative_types = |alternative: &Alternative<'_>| {
            let types = alternative.iter().map(|schema| allowed_types(schema));
            types.fold(ANY, |all, one| all & one)
        };
        self.0
            .iter()
            .map(alternative_types)
            .fold(0, |all, one| all | one)
    }
}

/// Returns the alternatives for a location that allows any value.
fn anything<'s>() -> Alternatives<'s> {
    vec![Alternative::new()]
}

/// Returns the alternatives, or alternatives that allow any value if there are too many.
fn limit(alternatives: Alternatives<'_>) -> Alternatives<'_> {
    if alternatives.len() > MAX_ALTERNATIVES {
        return anything();
    }
    alternatives
}

fn list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> Option<&'s [Value]> {
    schema.get(keyword)?.as_array().map(Vec::as_slice)
}

fn allowed_types(schema: &Map<String, Value>) -> JsonTypes {
    let mut types = match schema.get("type") {
        Some(Value::String(name)) => type_named(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(0, |all, name| all | type_named(name)),
        _ => ANY,
    };
    if let Some(value) = schema.get("const") {
        types &= value_type(value);
    }
    if let Some(values) = list(schema, "enum") {
        types &= values.iter().fold(0, |all, value| all | value_type(value));
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

pub(super) fn value_type(value: &Value) -> JsonTypes {
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
fn reference_target<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let pointer = super::instrumented::percent_decoded(reference.strip_prefix('#')?)?;
    root.pointer(&pointer)
}
