use serde_json::Value;

use super::ModelConfigError;

/// A value of a configuration together with the path of its key, so that each complaint
/// says where it is.
pub(super) struct Entry<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Entry<'a> {
    /// The whole configuration; its path is empty.
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            value,
            path: String::new(),
        }
    }

    /// The value of `key`, if this is a map that has one; `null` counts as none.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self {
            value,
            path: self.path_of(key),
        })
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// This value if it is a map. PHP writes an empty map as `[]`.
    pub(super) fn map(self) -> Result<Self, ModelConfigError> {
        match self.value {
            Value::Object(_) => Ok(self),
            Value::Array(items) if items.is_empty() => Ok(self),
            _ => Err(self.wrong_type("a map")),
        }
    }

    /// The items of a list. PHP writes a list with gaps (after `array_filter`) as a map
    /// whose keys are numbers; its values are taken in their order. Any other map is
    /// refused: a filter that was misread must not let everything through.
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
            _ => Err(self.wrong_type("a list")),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, ModelConfigError> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong_type("a string"))
    }

    /// A boolean, or what environment variables and databases make of one: 0 and 1, and the
    /// strings `true`, `false` (in any letter case), `1`, `0` and the empty string, which
    /// is PHP's false.
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
        flag.ok_or_else(|| self.wrong_type("a boolean"))
    }

    fn wrong_type(&self, expected: &'static str) -> ModelConfigError {
        let path = if self.path.is_empty() {
            "model configuration".to_owned()
        } else {
            self.path.clone()
        };
        ModelConfigError::WrongType {
            path,
            expected,
            found: describe(self.value),
        }
    }
}

/// A value in a few words: a wrong flag is easier to find by what it says.
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
