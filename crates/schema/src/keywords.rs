//! The keywords of JSON Schema that contain schemas.

/// What kind of schemas a keyword contains, in any dialect.
///
/// ```
/// use pillion_schema::SubschemaKind;
/// assert_eq!(SubschemaKind::of("properties"), SubschemaKind::Named);
/// assert_eq!(SubschemaKind::of("enum"), SubschemaKind::Nothing);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubschemaKind {
    /// A schema.
    Schema,
    /// A list of schemas.
    List,
    /// A schema or a list of schemas.
    Either,
    /// A map of schemas, whose keys are no keywords.
    Named,
    /// No schemas: data, or an unknown keyword.
    Nothing,
}

impl SubschemaKind {
    /// Returns whether the keyword contains no schemas.
    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns the kind of schemas that `keyword` contains.
    #[must_use]
    pub fn of(keyword: &str) -> Self {
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
