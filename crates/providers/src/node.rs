use serde_json::Value;

/// A value in a JSON document with its path, for error messages.
pub struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// The reason why a JSON document cannot be read. `path` is a location in the document, such as
/// `choices[0].message.tool_calls[2].id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// A required part is missing.
    #[error("{path} is missing")]
    Missing {
        /// The path of the missing part.
        path: String,
    },
    /// A part has the wrong type.
    #[error("{path} is {actual_type}, expected {expected_type}")]
    WrongType {
        /// The path of the part.
        path: String,
        /// The expected JSON type.
        expected_type: &'static str,
        /// The actual JSON type.
        actual_type: &'static str,
    },
    /// A part has a value that is not allowed.
    #[error("{path} {problem}")]
    Invalid {
        /// The path of the part.
        path: String,
        /// What is wrong with the value.
        problem: &'static str,
    },
}

impl<'a> Node<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        Self::new(value, String::new())
    }

    pub(crate) fn new(value: &'a Value, path: String) -> Self {
        Self { value, path }
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the member `key`, or `None` if the member is absent or `null`. `[]`, PHP's encoding
    /// of an empty object, has no members.
    pub(crate) fn optional(&self, key: &str) -> Result<Option<Self>, JsonFault> {
        match self.value {
            Value::Object(_) => {}
            Value::Array(items) if items.is_empty() => {}
            _ => return Err(self.wrong_type("an object")),
        }
        let value = self.value.get(key).filter(|value| !value.is_null());
        Ok(value.map(|value| Self::new(value, self.member_path(key))))
    }

    /// Returns the required member `key`.
    pub(crate) fn required(&self, key: &str) -> Result<Self, JsonFault> {
        self.optional(key)?.ok_or_else(|| JsonFault::Missing {
            path: self.member_path(key),
        })
    }

    /// Returns the items of an array.
    pub(crate) fn items(&self) -> Result<impl Iterator<Item = Node<'a>> + '_, JsonFault> {
        let Value::Array(items) = self.value else {
            return Err(self.wrong_type("an array"));
        };
        let indexed_items = items.iter().enumerate();
        Ok(indexed_items.map(|(index, value)| Node::new(value, format!("{}[{index}]", self.path))))
    }

    /// Returns the first item of an array, which must not be empty.
    pub(crate) fn first(&self) -> Result<Self, JsonFault> {
        self.items()?.next().ok_or_else(|| JsonFault::Missing {
            path: format!("{}[0]", self.path),
        })
    }

    pub(crate) fn text(&self) -> Result<&'a str, JsonFault> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong_type("a string"))
    }

    /// Returns whether the required member `type` has the value `kind`.
    pub(crate) fn has_type(&self, kind: &str) -> Result<bool, JsonFault> {
        Ok(self.required("type")?.text()? == kind)
    }

    /// Returns the joined texts in `member` of all items whose type is `kind`.
    pub(crate) fn joined_text(&self, kind: &str, member: &str) -> Result<String, JsonFault> {
        let mut text = String::new();
        for item in self.items()? {
            if item.has_type(kind)? {
                text.push_str(item.required(member)?.text()?);
            }
        }
        Ok(text)
    }

    pub(crate) fn wrong_type(&self, expected_type: &'static str) -> JsonFault {
        let path = match self.path.as_str() {
            "" => "the body",
            path => path,
        };
        JsonFault::WrongType {
            path: path.to_owned(),
            expected_type,
            actual_type: match self.value {
                Value::Null => "null",
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::String(_) => "a string",
                Value::Array(_) => "an array",
                Value::Object(_) => "an object",
            },
        }
    }

    /// Creates the error for a value that is not allowed.
    pub(crate) fn invalid(&self, problem: &'static str) -> JsonFault {
        JsonFault::Invalid {
            path: self.path.clone(),
            problem,
        }
    }

    fn member_path(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }
}

/// Returns the arguments of a call for the executor: unchanged, or `{}` for missing arguments and
/// for `[]`, PHP's encoding of an empty object.
pub(crate) fn arguments(node: Option<Node<'_>>) -> Value {
    node.map_or_else(create_empty_object, |node| restore_empty_object(node.value))
}

/// Returns the value, or `{}` for `[]`, PHP's encoding of an empty object.
pub(crate) fn restore_empty_object(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => create_empty_object(),
        other => other.clone(),
    }
}

fn create_empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}
