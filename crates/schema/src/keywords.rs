//! The keywords of JSON Schema that contain schemas.

use serde_json::Value;

/// The values of `type`.
pub(super) const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// What kind of schemas a keyword contains, in any dialect.
///
/// ```
/// use pillion_schema::SubschemaKind;
/// assert_eq!(SubschemaKind::from_keyword("properties"), SubschemaKind::Named);
/// assert_eq!(SubschemaKind::from_keyword("enum"), SubschemaKind::Nothing);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubschemaKind {
    /// The keyword contains one schema.
    Schema,
    /// The keyword contains a list of schemas.
    List,
    /// The keyword contains a schema or a list of schemas.
    Either,
    /// The keyword contains a map of schemas, whose keys are not keywords.
    Named,
    /// The keyword contains no schemas, only data, or is unknown.
    Nothing,
}

impl SubschemaKind {
    /// Returns whether the keyword contains no schemas.
    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns the kind of schemas that `keyword` contains.
    #[must_use]
    pub fn from_keyword(keyword: &str) -> Self {
        match keyword {
            "additionalItems"
            | "additionalProperties"
            | "contains"
            | "contentSchema"
            | "else"
            | "if"
            | "not"
            | "propertyNames"
            | "then"
            | "unevaluatedItems"
            | "unevaluatedProperties" => Self::Schema,
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => Self::List,
            "items" => Self::Either,
            "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
            | "properties" => Self::Named,
            _ => Self::Nothing,
        }
    }
}

/// Returns the schemas in the value of a keyword.
///
/// ```
/// use pillion_schema::subschemas;
/// use serde_json::json;
/// let value = json!({"a": {}, "b": {"type": "string"}});
/// assert_eq!(subschemas("properties", &value).count(), 2);
/// assert_eq!(subschemas("default", &value).count(), 0);
/// ```
pub fn subschemas<'s>(keyword: &str, value: &'s Value) -> impl Iterator<Item = &'s Value> {
    let (one, list, named) = match (SubschemaKind::from_keyword(keyword), value) {
        (SubschemaKind::Nothing, _) => (None, None, None),
        (SubschemaKind::Named, Value::Object(named)) => (None, None, Some(named.values())),
        (_, Value::Array(list)) => (None, Some(list.iter()), None),
        (_, one) => (Some(one), None, None),
    };
    let list = list.into_iter().flatten();
    one.into_iter()
        .chain(list)
        .chain(named.into_iter().flatten())
}

/// Returns the schemas in the value of a keyword, like [`subschemas`], for changes.
pub fn subschemas_mut<'s>(
    keyword: &str,
    value: &'s mut Value,
) -> impl Iterator<Item = &'s mut Value> {
    let (one, list, named) = match (SubschemaKind::from_keyword(keyword), value) {
        (SubschemaKind::Nothing, _) => (None, None, None),
        (SubschemaKind::Named, Value::Object(named)) => (None, None, Some(named.values_mut())),
        (_, Value::Array(list)) => (None, Some(list.iter_mut()), None),
        (_, one) => (Some(one), None, None),
    };
    let list = list.into_iter().flatten();
    one.into_iter()
        .chain(list)
        .chain(named.into_iter().flatten())
}
