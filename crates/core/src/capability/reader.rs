use serde_json::Value;

use super::ModelConfigError;

/// A configuration value with the path of its key, for error messages.
pub(super) struct ConfigReader<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> ConfigReader<'a> {
    /// Returns the whole configuration, whose path is empty.
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            value,
            path: String::new(),
        }
    }

    /// Returns the value of `key` if this value is a map that contains `key`; `null` counts as
    /// absent.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self {
            value,
            path: self.key_path(key),
        })
    }

    pub(super) fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Returns this value if it is a map. `[]`, PHP's encoding of an empty map, counts as a map.
    pub(super) fn into_map(self) -> Result<Self, ModelConfigError> {
        match self.value {
            Value::Object(_) => Ok(self),
            Value::Array(items) if items.is_empty() => Ok(self),
            _ => Err(self.wrong_type_error("a map")),
        }
    }

    /// Returns the items of a list. PHP encodes a list with gaps (after `array_filter`) as a map
    /// with numeric keys; its values are used in order. Any other map is rejected: if it were read
    /// as an empty list, `enabled_tools` would allow all tools.
    pub(super) fn items(&self) -> Result<Vec<Self>, ModelConfigError> {
        let item = |key: &dyn std::fmt::Display, value: &'a Value| Self {
            value,
            path: format!("{}[{key}]", self.path),
        };
        match self.value {
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, value)| item(&index, value))
                .collect()),
            Value::Object(map) if map.keys().all(|key| key.parse::<u64>().is_ok()) => {
                Ok(map.iter().map(|(key, value)| item(key, value)).collect())
            }
            _ => Err(self.wrong_type_error("a list")),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, ModelConfigError> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong_type_error("a string"))
    }

    /// Parses a flag. Accepts booleans, and the values that environment variables and databases
    /// contain instead: the numbers 0 and 1, the strings `true` and `false` (case-insensitive), `1`
    /// and `0`, and the empty string (PHP's `false`).
    pub(super) fn flag(&self) -> Result<bool, ModelConfigError> {
        let flag = match self.value {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) => match number.as_u64() {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
            Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" => Some(true),
                "false" | "0" | "" => Some(false),
                _ => None,
            },
            _ => None,
        };
        flag.ok_or_else(|| self.wrong_type_error("a boolean"))
    }

    fn wrong_type_error(&self, expected: &'static str) -> ModelConfigError {
        let path = if self.path.is_empty() {
            "model configuration".to_owned()
        } else {
            self.path.clone()
        };
        ModelConfigError::WrongType {
            path,
            expected,
            actual: describe(self.value),
        }
    }
}

/// Describes a value for an error message, including its content if short.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => format!("the string '{text}'"),
        Value::String(_) => "a long string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}
