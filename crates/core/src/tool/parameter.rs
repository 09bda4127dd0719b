use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// The JSON type of a parameter. Parsed case-insensitively, serialized in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum ParameterType {
    /// The value is text.
    String,
    /// The value is any JSON number.
    Number,
    /// The value is a number without a fraction, such as `5` or `5.0`; never a boolean.
    Integer,
    /// The value is `true` or `false`.
    Boolean,
    /// The value is an array.
    Array,
    /// The value is an object.
    Object,
}

/// Error for an unknown type name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown parameter type '{0}': use string, number, integer, boolean, array or object")]
pub struct UnknownParameterType(pub String);

impl ParameterType {
    /// Returns the type's name in JSON Schema.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

impl FromStr for ParameterType {
    type Err = UnknownParameterType;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "string" => Ok(Self::String),
            "number" => Ok(Self::Number),
            "integer" => Ok(Self::Integer),
            "boolean" => Ok(Self::Boolean),
            "array" => Ok(Self::Array),
            "object" => Ok(Self::Object),
            _ => Err(UnknownParameterType(name.to_owned())),
        }
    }
}

impl TryFrom<String> for ParameterType {
    type Error = UnknownParameterType;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<ParameterType> for &'static str {
    fn from(kind: ParameterType) -> Self {
        kind.as_str()
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A parameter of a tool.
///
/// In JSON: `{"name": "format", "type": "STRING", "description": "...", "required": false,
/// "default": "full", "enum": ["full", "date"]}`; only `name` and `type` are required.
///
/// ```
/// use pillion_core::tool::{ParameterType, ToolParameter};
/// use serde_json::json;
/// let units = ToolParameter::new("units", ParameterType::String)
///     .describe("Unit of the temperature")
///     .one_of([json!("celsius"), json!("fahrenheit")])
///     .default_value(json!("celsius"));
/// assert!(!units.required);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolParameter {
    /// The name of the parameter: its key in the arguments.
    pub name: String,
    /// The JSON type of the value.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// The description of the parameter for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether a call must contain the parameter. Default `true`.
    #[serde(default = "required_by_default")]
    pub required: bool,
    /// The default value of the parameter; `null` if there is none.
    #[serde(default)]
    pub default: Value,
    /// The allowed values; empty means any.
    #[serde(default, rename = "enum", deserialize_with = "null_as_empty")]
    pub allowed: Vec<Value>,
}

fn required_by_default() -> bool {
    true
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl ToolParameter {
    /// Creates a required parameter without description, default or allowed values.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ParameterType) -> Self {
        Self {
            name: name.into(),
            kind,
            description: None,
            required: true,
            default: Value::Null,
            allowed: Vec::new(),
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Makes the parameter optional.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// Sets the default, which makes the parameter optional.
    #[must_use]
    pub fn default_value(mut self, default: Value) -> Self {
        self.required = false;
        self.default = default;
        self
    }

    /// Sets the allowed values.
    #[must_use]
    pub fn one_of(mut self, allowed: impl IntoIterator<Item = Value>) -> Self {
        self.allowed = allowed.into_iter().collect();
        self
    }

    /// Returns the parameter as a JSON Schema property. The property has `enum` only if there are
    /// allowed values, and `default` only if the default is not null; a default of `0`, `false` or
    /// `""` is included.
    pub(crate) fn to_property(&self) -> Value {
        let mut property = json!({"type": self.kind.as_str()});
        if let Some(description) = &self.description {
            property["description"] = json!(description);
        }
        if !self.allowed.is_empty() {
            property["enum"] = json!(self.allowed);
        }
        if !self.default.is_null() {
            property["default"] = self.default.clone();
        }
        property
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<ToolParameter, serde_json::Error> {
        serde_json::from_value(value)
    }

    #[test]
    fn a1_only_name_and_type_are_mandatory_and_required_defaults_to_true() {
        let parameter = read(json!({"name": "q", "type": "STRING"})).unwrap();
        assert_eq!(parameter, ToolParameter::new("q", ParameterType::String));
        assert!(parameter.required);
        let full = json!({"name": "n", "type": "Integer", "description": "How many",
            "required": false, "default": 5, "enum": [1, 5]});
        let full = read(full).unwrap();
        assert!(!full.required);
        assert_eq!(
            full.to_property(),
            json!({"type": "integer", "description": "How many", "enum": [1, 5], "default": 5})
        );
        assert!(read(json!({"name": "q", "type": "string", "enum": null})).is_ok());
    }

    #[test]
    fn a1_types_are_read_in_any_case_and_written_in_lower_case() {
        for name in ["string", "number", "integer", "boolean", "array", "object"] {
            let kind: ParameterType = name.to_uppercase().parse().unwrap();
            assert_eq!(serde_json::to_value(kind).unwrap(), json!(name));
        }
        let error = read(json!({"name": "q", "type": "date"})).unwrap_err();
        assert!(error.to_string().contains("Unknown parameter type 'date'"));
    }
}
