use serde_json::Value;

use crate::{ModelError, ModelErrorKind};

/// A value in the messages with its path, for error messages.
pub(super) struct MessageNode<'a> {
    value: &'a Value,
    path: String,
}

/// Creates an error for input that cannot be read.
pub(super) fn refusal(what: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Refused, what)
}

impl<'a> MessageNode<'a> {
    pub(super) fn new(value: &'a Value, path: String) -> Self {
        Self { value, path }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Creates an error at this path.
    pub(super) fn error(&self, what: &str) -> ModelError {
        refusal(format!("{} {what}", self.path))
    }

    /// Returns the member `key`, or `None` if the member is absent or `null`.
    pub(super) fn optional(&self, key: &str) -> Result<Option<Self>, ModelError> {
        let Value::Object(members) = self.value else {
            return Err(self.wrong_type("an object"));
        };
        let value = members.get(key).filter(|value| !value.is_null());
        Ok(value.map(|value| Self::new(value, format!("{}.{key}", self.path))))
    }

    pub(super) fn required(&self, key: &str) -> Result<Self, ModelError> {
        self.optional(key)?
            .ok_or_else(|| refusal(format!("{}.{key} is missing", self.path)))
    }

    pub(super) fn items(&self) -> Result<impl Iterator<Item = MessageNode<'a>> + '_, ModelError> {
        let Value::Array(items) = self.value else {
            return Err(self.wrong_type("an array"));
        };
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, value)| MessageNode::new(value, format!("{}[{index}]", self.path))))
    }

    pub(super) fn text(&self) -> Result<&'a str, ModelError> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong_type("a string"))
    }

    pub(super) fn wrong_type(&self, expected: &str) -> ModelError {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.error(&format!("is {found}, expected {expected}"))
    }
}
