use std::fmt::Write as _;

use serde_json::Value;

use super::{Provider, ProviderError};

/// A value in a response body with its path, for error messages.
pub(super) struct Node<'a> {
    provider: Provider,
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(provider: Provider, value: &'a Value) -> Self {
        Self {
            provider,
            value,
            path: String::new(),
        }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the member `key`, or `None` if it is absent or `null`. `[]`, PHP's encoding of an
    /// empty object, has no members.
    pub(super) fn optional(&self, key: &str) -> Result<Option<Self>, ProviderError> {
        match self.value {
            Value::Object(_) => {}
            Value::Array(items) if items.is_empty() => {}
            _ => return Err(self.wrong_type("an object")),
        }
        Ok(self
            .value
            .get(key)
            .filter(|value| !value.is_null())
            .map(|value| self.child(value, key)))
    }

    /// Returns the required member `key`.
    pub(super) fn required(&self, key: &str) -> Result<Self, ProviderError> {
        self.optional(key)?.ok_or_else(|| {
            let mut path = self.path.clone();
            push_key(&mut path, key);
            self.missing(path)
        })
    }

    /// Returns the items of an array.
    pub(super) fn items(&self) -> Result<impl Iterator<Item = Node<'a>> + '_, ProviderError> {
        let Value::Array(items) = self.value else {
            return Err(self.wrong_type("an array"));
        };
        Ok(items.iter().enumerate().map(|(index, value)| Node {
            provider: self.provider,
            value,
            path: format!("{}[{index}]", self.path),
        }))
    }

    /// Returns the first item of an array, which is required.
    pub(super) fn first(&self) -> Result<Self, ProviderError> {
        self.items()?
            .next()
            .ok_or_else(|| self.missing(format!("{}[0]", self.path)))
    }

    pub(super) fn text(&self) -> Result<&'a str, ProviderError> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong_type("a string"))
    }

    /// Returns whether the required member `type` is `kind`.
    pub(super) fn is_type(&self, kind: &str) -> Result<bool, ProviderError> {
        Ok(self.required("type")?.text()? == kind)
    }

    fn child(&self, value: &'a Value, key: &str) -> Self {
        let mut path = String::with_capacity(self.path.len() + key.len() + 1);
        path.push_str(&self.path);
        push_key(&mut path, key);
        Self {
            provider: self.provider,
            value,
            path,
        }
    }

    fn missing(&self, path: String) -> ProviderError {
        ProviderError::Missing {
            provider: self.provider,
            path,
        }
    }

    fn wrong_type(&self, expected: &'static str) -> ProviderError {
        let path = if self.path.is_empty() {
            "the body".to_owned()
        } else {
            self.path.clone()
        };
        ProviderError::WrongType {
            provider: self.provider,
            path,
            expected,
            found: match self.value {
                Value::Null => "null",
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::String(_) => "a string",
                Value::Array(_) => "an array",
                Value::Object(_) => "an object",
            },
        }
    }
}

fn push_key(path: &mut String, key: &str) {
    let separator = if path.is_empty() { "" } else { "." };
    // Writing to a `String` cannot fail.
    let _ = write!(path, "{separator}{key}");
}

/// Returns the arguments of a call for the executor: unchanged, or `{}` if they are missing or
/// `[]`, PHP's encoding of an empty object.
pub(super) fn arguments(node: Option<Node<'_>>) -> Value {
    node.map_or_else(empty_object, |node| restored(node.value))
}

/// Returns the value, or `{}` for `[]`, PHP's encoding of an empty object.
pub(super) fn restored(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => empty_object(),
        other => other.clone(),
    }
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}
