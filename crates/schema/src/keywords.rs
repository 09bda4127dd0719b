//! The keywords of JSON Schema that contain schemas.

use serde_json::Value;

/// The values of `type`.
pub(super) const TYPE_NAMES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// In which form a keyword contains schemas, in any dialect.
///
/// ```
/// use pillion_schema::SubschemaKind;
/// assert_eq!(SubschemaKind::from_keyword("properties"), SubschemaKind::Map);
/// assert_eq!(SubschemaKind::from_keyword("enum"), SubschemaKind::NoSchema);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubschemaKind {
    /// The keyword contains one schema.
    Schema,
    /// The keyword contains a list of schemas.
    List,
    /// The keyword contains a schema or a list of schemas.
    SchemaOrList,
    /// The keyword contains a map of schemas, whose keys are not keywords.
    Map,
    /// The keyword contains no schemas, only data, or is unknown.
    NoSchema,
}

impl SubschemaKind {
    /// Returns whether the keyword contains no schemas.
    pub(super) fn has_no_schemas(self) -> bool {
        matches!(self, Self::NoSchema)
    }

    /// Returns the form in which `keyword` contains schemas.
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
            "items" => Self::SchemaOrList,
            "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
            | "properties" => Self::Map,
            _ => Self::NoSchema,
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
    let (schema, schemas, by_name) = match (SubschemaKind::from_keyword(keyword), value) {
        (SubschemaKind::NoSchema, _) => (None, None, None),
        (SubschemaKind::Map, Value::Object(by_name)) => (None, None, Some(by_name.values())),
        (_, Value::Array(schemas)) => (None, Some(schemas.iter()), None),
        (_, schema) => (Some(schema), None, None),
    };
    schema
        .into_iter()
        .chain(schemas.into_iter().flatten())
        .chain(by_name.into_iter().flatten())
}

/// Returns mutable references to the schemas in the value of a keyword; otherwise like
/// [`subschemas`].
pub fn subschemas_mut<'s>(
    keyword: &str,
    value: &'s mut Value,
) -> impl Iterator<Item = &'s mut Value> {
    let (schema, schemas, by_name) = match (SubschemaKind::from_keyword(keyword), value) {
        (SubschemaKind::NoSchema, _) => (None, None, None),
        (SubschemaKind::Map, Value::Object(by_name)) => (None, None, Some(by_name.values_mut())),
        (_, Value::Array(schemas)) => (None, Some(schemas.iter_mut()), None),
        (_, schema) => (Some(schema), None, None),
    };
    schema
        .into_iter()
        .chain(schemas.into_iter().flatten())
        .chain(by_name.into_iter().flatten())
}
