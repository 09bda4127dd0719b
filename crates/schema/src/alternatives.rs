//! Finds the subschemas that apply to one location in a value.
//!
//! Due to `anyOf` and `oneOf`, there can be several lists of subschemas for one location. A value
//! must match all subschemas of at least one list. Such a list is an `Alternative`.

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

/// A list of subschemas, all of which a value must match.
type Alternative<'s> = Vec<&'s Map<String, Value>>;
/// A list of alternatives, of which a value must match at least one.
type Alternatives<'s> = Vec<Alternative<'s>>;

/// Maximum number of alternatives at one location; with more, any value is assumed to be allowed.
const MAX_ALTERNATIVES: usize = 64;
/// Maximum nesting of schemas at one location, including references.
const MAX_LEVELS: usize = 32;
/// Maximum number of steps of a reader for one value. Visiting a schema is one step.
pub(super) const MAX_STEPS: u32 = 100_000;
/// Number of comparisons that count as one step.
const COMPARISONS_PER_STEP: usize = 16;

/// Reads a schema conservatively: parts that the reader does not understand (patterns, conditions,
/// schema identifiers) count as allowing any value.
pub(super) struct SchemaReader<'s> {
    root: &'s Value,
    steps_left: u32,
}

/// A location in a value, as the alternatives that apply to the location.
pub(super) struct ValueLocation<'s>(Alternatives<'s>);

impl<'s> SchemaReader<'s> {
    /// Creates a reader that takes at most `max_steps` steps. After the last step, the reader
    /// treats every schema as allowing any value.
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

    /// Returns the location of a value to which only `schema` applies.
    pub(super) fn root_location(&mut self, schema: &'s Value) -> ValueLocation<'s> {
        ValueLocation(self.expand(schema, 0))
    }

    /// Returns the location of a member of an object at `location`.
    pub(super) fn member_location(
        &mut self,
        location: &ValueLocation<'s>,
        name: &str,
    ) -> ValueLocation<'s> {
        self.descend(location, |reader, schema| {
            reader.member_alternatives(schema, name)
        })
    }

    /// Returns the location of an element of an array at `location`.
    pub(super) fn element_location(
        &mut self,
        location: &ValueLocation<'s>,
        index: usize,
    ) -> ValueLocation<'s> {
        self.descend(location, |reader, schema| {
            let items = schema.get("items");
            let tuple_items = schema.get("prefixItems").or(items);
            let item = tuple_items.and_then(|tuple_items| tuple_items.as_array()?.get(index));
            match item.or(items.filter(|items| !items.is_array())) {
                Some(schema) => reader.expand(schema, 1),
                None => any_value(),
            }
        })
    }

    fn descend(
        &mut self,
        location: &ValueLocation<'s>,
        mut alternatives_in: impl FnMut(&mut Self, &'s Map<String, Value>) -> Alternatives<'s>,
    ) -> ValueLocation<'s> {
        let mut alternatives = Alternatives::new();
        for alternative in &location.0 {
            let mut combined_alternatives = any_value();
            for &schema in alternative {
                let schema_alternatives = alternatives_in(self, schema);
                combined_alternatives = self.combine(&combined_alternatives, &schema_alternatives);
            }
            alternatives.extend(combined_alternatives);
        }
        ValueLocation(limit_count(alternatives))
    }

    fn member_alternatives(
        &mut self,
        schema: &'s Map<String, Value>,
        name: &str,
    ) -> Alternatives<'s> {
        let properties = schema.get("properties");
        if let Some(property) = properties.and_then(|properties| properties.get(name)) {
            return self.expand(property, 1);
        }
        let mut alternatives = match schema.get("additionalProperties") {
            Some(additional) => self.expand(additional, 1),
            None => any_value(),
        };
        // The schemas of all pattern properties are included, whether or not the name matches the
        // pattern.
        let pattern_properties = schema.get("patternProperties").and_then(Value::as_object);
        for schema in pattern_properties.into_iter().flat_map(Map::values) {
            alternatives.extend(self.expand(schema, 1));
        }
        limit_count(alternatives)
    }

    fn expand(&mut self, schema: &'s Value, level: usize) -> Alternatives<'s> {
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return Alternatives::new(),
            _ => return any_value(),
        };
        if level > MAX_LEVELS || !self.take_step() {
            return any_value();
        }
        let mut alternatives = vec![vec![schema]];
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = match reference_target(self.root, reference) {
                Some(target) => self.expand(target, level + 1),
                None => any_value(),
            };
            alternatives = self.combine(&alternatives, &target);
        }
        for subschema in keyword_list(schema, "allOf").unwrap_or_default() {
            let subschema_alternatives = self.expand(subschema, level + 1);
            alternatives = self.combine(&alternatives, &subschema_alternatives);
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(subschemas) = keyword_list(schema, keyword) else {
                continue;
            };
            let mut any_of = Alternatives::new();
            for subschema in subschemas {
                any_of.extend(self.expand(subschema, level + 1));
            }
            alternatives = self.combine(&alternatives, &limit_count(any_of));
        }
        alternatives
    }

    /// Returns all combinations of an item of `lefts` and an item of `rights`.
    fn combine(&mut self, lefts: &Alternatives<'s>, rights: &Alternatives<'s>) -> Alternatives<'s> {
        if lefts.len() * rights.len() > MAX_ALTERNATIVES {
            return any_value();
        }
        let mut combinations = Alternatives::with_capacity(lefts.len() * rights.len());
        for left in lefts {
            for right in rights {
                if !self.take_step() {
                    return any_value();
                }
                combinations.push(left.iter().chain(right).copied().collect());
            }
        }
        combinations
    }

    /// Returns `true` if any alternative requires the member `name`, or if all steps are used up.
    pub(super) fn is_required(&mut self, location: &ValueLocation<'s>, name: &str) -> bool {
        location.0.iter().flatten().any(|schema| {
            let required = keyword_list(schema, "required").unwrap_or_default();
            !self.take_comparison_steps(required.len())
                || required.iter().any(|required_name| required_name == name)
        })
    }

    /// Removes the alternatives that this object cannot match, unless no alternative would be left.
    pub(super) fn narrow(&mut self, location: &mut ValueLocation<'s>, value: &Map<String, Value>) {
        if location.0.len() < 2 {
            return;
        }
        let mut matching_alternatives = location.0.clone();
        matching_alternatives.retain(|alternative| {
            let mut schemas = alternative.iter();
            schemas.all(|schema| self.may_match(schema, value))
        });
        if !matching_alternatives.is_empty() {
            location.0 = matching_alternatives;
        }
    }

    /// Returns whether the object can match the schema: the object has the required members, and
    /// `const` and `enum` allow the object's strings.
    fn may_match(&mut self, schema: &Map<String, Value>, value: &Map<String, Value>) -> bool {
        let properties = schema.get("properties").and_then(Value::as_object);
        let has_allowed_strings = properties.is_none_or(|properties| {
            value.iter().all(|(name, member)| {
                let Some(property) = properties.get(name).filter(|_| member.is_string()) else {
                    return true;
                };
                let differs_from_const = property
                    .get("const")
                    .is_some_and(|constant| constant != member);
                let allowed_values = property.get("enum").and_then(Value::as_array);
                !differs_from_const
                    && allowed_values.is_none_or(|allowed_values| {
                        !self.take_comparison_steps(allowed_values.len())
                            || allowed_values.contains(member)
                    })
            })
        });
        let required = keyword_list(schema, "required").unwrap_or_default();
        let mut required_names = required.iter().filter_map(Value::as_str);
        has_allowed_strings
            && allowed_types(schema) & OBJECT != 0
            && (!self.take_comparison_steps(value.len().max(required.len()))
                || required_names.all(|name| value.contains_key(name)))
    }

    fn take_step(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left > 0
    }

    /// Subtracts the steps for comparing a value with `count` other values from the remaining
    /// steps. Returns whether any steps remain.
    fn take_comparison_steps(&mut self, count: usize) -> bool {
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
            types.fold(ANY, |left, right| left & right)
        };
        self.0
            .iter()
            .map(alternative_types)
            .fold(0, |left, right| left | right)
    }
}

/// Returns the alternatives for a location that allows any value.
fn any_value<'s>() -> Alternatives<'s> {
    vec![Alternative::new()]
}

/// Returns the alternatives, or alternatives that allow any value if there are too many.
fn limit_count(alternatives: Alternatives<'_>) -> Alternatives<'_> {
    if alternatives.len() > MAX_ALTERNATIVES {
        return any_value();
    }
    alternatives
}

fn keyword_list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> Option<&'s [Value]> {
    schema.get(keyword)?.as_array().map(Vec::as_slice)
}

fn allowed_types(schema: &Map<String, Value>) -> JsonTypes {
    let mut types = match schema.get("type") {
        Some(Value::String(name)) => type_from_name(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(0, |union, name| union | type_from_name(name)),
        _ => ANY,
    };
    if let Some(value) = schema.get("const") {
        types &= value_type(value);
    }
    if let Some(values) = keyword_list(schema, "enum") {
        types &= values
            .iter()
            .fold(0, |union, value| union | value_type(value));
    }
    types
}

fn type_from_name(name: &str) -> JsonTypes {
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
    let pointer = super::instrumented::percent_decode(reference.strip_prefix('#')?)?;
    root.pointer(&pointer)
}
