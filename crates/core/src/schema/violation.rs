use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use serde_json::Value;

use super::Unchecked;
use super::counted::as_written;
use super::python_repr::python_repr;

/// How arguments break a tool's schema, in the words of requirement C3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidArguments {
    /// A required parameter, or a required key of an object inside one, is not there.
    #[error("Missing required parameter: {path}")]
    Missing {
        /// The way to it, such as `query` or `filter.from`.
        path: String,
    },
    /// A value of another JSON type than the schema asks for.
    #[error("Invalid type for {path}: expected {expected}")]
    Type {
        /// The way to the value, such as `items[2].price`.
        path: String,
        /// The type or types, such as `integer` or `string or null`.
        expected: String,
    },
    /// A value outside the list of those allowed.
    #[error("Invalid value for {path}: must be one of {allowed}")]
    NotAllowed {
        /// The way to the value.
        path: String,
        /// The allowed values, as a Python list.
        allowed: String,
    },
    /// Anything else that the schema forbids; the value itself is left out of the text.
    #[error("Invalid value for {path}: {reason}")]
    Other {
        /// The way to the value.
        path: String,
        /// What the schema asks for.
        reason: String,
    },
}

/// Longest path or reason that goes into a message, in characters.
const LONGEST_PART: usize = 200;

impl InvalidArguments {
    pub(super) fn from_error(error: &ValidationError<'_>) -> Self {
        let path = path_of(error);
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let property = property.as_str().unwrap_or_default();
                Self::Missing {
                    path: shorten(if path.is_empty() {
                        property.to_owned()
                    } else {
                        format!("{path}.{property}")
                    }),
                }
            }
            ValidationErrorKind::Type { kind } => Self::Type {
                path: shorten(or_whole(path)),
                expected: match kind {
                    TypeKind::Single(kind) => kind.to_string(),
                    TypeKind::Multiple(kinds) => {
                        let names: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
                        names.join(" or ")
                    }
                },
            },
            ValidationErrorKind::Enum { options } => Self::NotAllowed {
                path: shorten(or_whole(path)),
                allowed: python_repr(options),
            },
            ValidationErrorKind::Constant { expected_value } => Self::NotAllowed {
                path: shorten(or_whole(path)),
                allowed: python_repr(&Value::Array(vec![expected_value.as_ref().clone()])),
            },
            _ => Self::Other {
                path: shorten(or_whole(path)),
                reason: shorten(reason(error, "the value")),
            },
        }
    }

    /// For a validator that says no without naming an error; it should not happen.
    pub(super) fn unexplained() -> Self {
        Self::Other {
            path: "arguments".to_owned(),
            reason: "it does not match the schema".to_owned(),
        }
    }

    pub(super) fn unchecked(unchecked: Unchecked) -> Self {
        Self::Other {
            path: "arguments".to_owned(),
            reason: unchecked.to_string(),
        }
    }

    /// The top-level parameter that the violation is about.
    pub(super) fn parameter(&self) -> &str {
        let (Self::Missing { path }
        | Self::Type { path, .. }
        | Self::NotAllowed { path, .. }
        | Self::Other { path, .. }) = self;
        path.split(['.', '[']).next().unwrap_or(path)
    }
}

/// What the schema asks for, in its own words. `value` stands for the value.
pub(super) fn reason(error: &ValidationError<'_>, value: &str) -> String {
    match error.kind() {
        ValidationErrorKind::Not { schema } => {
            let mut schema = schema.clone();
            as_written(&mut schema);
            format!("{schema} is not allowed for {value}")
        }
        // Names are no secret, and no value stands for one.
        ValidationErrorKind::PropertyNames { error } => {
            reason(error, &error.instance().to_string())
        }
        _ => error.masked_with(value).to_string(),
    }
}

fn path_of(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path() {
        match segment {
            LocationSegment::Property(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&name);
            }
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

fn or_whole(path: String) -> String {
    if path.is_empty() {
        "arguments".to_owned()
    } else {
        path
    }
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(LONGEST_PART) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}
