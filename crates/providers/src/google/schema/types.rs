use serde_json::{Value, json};

use super::resolve::Resolved;
use pillion_core::tool::JsonObject;

/// Checks whether a value is allowed for a keyword.
pub(super) type Check = fn(&Value) -> bool;

/// A type of Gemini's `Schema`, except `null`, which is represented by `nullable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Number,
    Integer,
    Boolean,
    Array,
    Object,
}

const KINDS: [Kind; 6] = [
    Kind::String,
    Kind::Number,
    Kind::Integer,
    Kind::Boolean,
    Kind::Array,
    Kind::Object,
];

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        KINDS
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(name))
    }

    /// Returns the keywords that depend on the type, with a check of their values. Defaults are
    /// limited to scalars, because Gemini ignores them and copying large ones is wasteful.
    pub(super) fn keywords(self) -> &'static [(&'static str, Check)] {
        match self {
            Self::String => &[
                ("default", Value::is_string),
                ("format", |value| value == "date-time"),
                ("minLength", Value::is_u64),
                ("maxLength", Value::is_u64),
                ("pattern", Value::is_string),
            ],
            Self::Number => &[
                ("default", Value::is_number),
                ("format", |value| value == "float" || value == "double"),
                ("minimum", Value::is_number),
                ("maximum", Value::is_number),
            ],
            Self::Integer => &[
                ("default", is_integer),
                ("format", |value| value == "int32" || value == "int64"),
                ("minimum", Value::is_number),
                ("maximum", Value::is_number),
            ],
            Self::Boolean => &[("default", Value::is_boolean)],
            Self::Array => &[("minItems", Value::is_u64), ("maxItems", Value::is_u64)],
            Self::Object => &[
                ("minProperties", Value::is_u64),
                ("maxProperties", Value::is_u64),
            ],
        }
    }

    /// Returns the type that the keywords of a node without a type imply.
    pub(super) fn implied_by(node: &Resolved<'_>) -> Self {
        let has_any = |keys: &[&str]| keys.iter().any(|key| node.get(key).is_some());
        if node.properties().next().is_some() || has_any(&["additionalProperties"]) {
            Self::Object
        } else if node.items().is_some() {
            Self::Array
        } else if let Some(values) = node.values() {
            Self::from_values(&values)
        } else if has_any(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
            Self::Number
        } else {
            Self::String
        }
    }

    fn from_values(values: &[&Value]) -> Self {
        let all = |fits: Check| values.iter().all(|value| value.is_null() || fits(value));
        if all(Value::is_string) {
            Self::String
        } else if all(is_integer) {
            Self::Integer
        } else if all(Value::is_number) {
            Self::Number
        } else if all(Value::is_boolean) {
            Self::Boolean
        } else {
            Self::String
        }
    }

    /// Returns the type of a node that is not processed further.
    pub(super) fn for_truncated_node(schema: &Value) -> Self {
        schema
            .get("type")
            .and_then(Value::as_str)
            .and_then(Self::from_name)
            .unwrap_or(Self::Object)
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// Returns the declared types of a node, and whether they include `null`.
pub(super) fn declared_types(node: &Resolved<'_>) -> (Vec<Kind>, bool) {
    let names: Vec<_> = match node.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let named = |kind: &str| names.iter().any(|name| name.eq_ignore_ascii_case(kind));
    let kinds = KINDS
        .into_iter()
        .filter(|kind| named(kind.as_str()))
        // Every integer is a number.
        .filter(|kind| *kind != Kind::Integer || !named("number"))
        .collect();
    (kinds, named("null"))
}

/// Converts `exclusiveMinimum` and `exclusiveMaximum` to inclusive bounds, unless these are
/// present. The boolean form of draft 4 accompanies an inclusive bound.
pub(super) fn inclusive_bounds(node: &Resolved<'_>, kind: Kind, out: &mut JsonObject) {
    for (exclusive, inclusive, step) in [
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ] {
        let Some(bound) = node.get(exclusive).filter(|bound| bound.is_number()) else {
            continue;
        };
        let bound = match bound.as_i64().and_then(|bound| bound.checked_add(step)) {
            Some(next) if kind == Kind::Integer => json!(next),
            _ => bound.clone(),
        };
        out.entry(inclusive).or_insert(bound);
    }
}
