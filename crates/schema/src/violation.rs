use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use serde_json::Value;

use super::CheckAborted;
use super::instrumented::remove_counters;
use super::python_repr::python_repr;

/// Why arguments do not match a tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidArguments {
    /// A required parameter, or a required member of an object in a parameter, is missing.
    #[error("Missing required parameter: {path}")]
    Missing {
        /// Path of the parameter or member, such as `query` or `filter.from`.
        path: String,
    },
    /// A value has the wrong JSON type.
    #[error("Invalid type for {path}: expected {expected}")]
    Type {
        /// Path of the value, such as `items[2].price`.
        path: String,
        /// The expected type or types, such as `integer` or `string or null`.
        expected: String,
    },
    /// A value is not one of the allowed values.
    #[error("Invalid value for {path}: must be one of {allowed}")]
    NotAllowed {
        /// Path of the value that is not allowed.
        path: String,
        /// The allowed values, as a Python list.
        allowed: String,
    },
    /// The value violates another rule. The message does not contain the value.
    #[error("Invalid value for {path}: {reason}")]
    Other {
        /// Path of the value that violates the rule.
        path: String,
        /// The rule that the value violates.
        reason: String,
    },
}

/// Maximum length of a path or reason in an error message, in characters.
const MAX_PART_CHARS: usize = 200;

/// Maximum length of a list of allowed values in an error message, in characters.
const MAX_LIST_CHARS: usize = 4_000;

impl InvalidArguments {
    pub(super) fn from_error(error: &ValidationError<'_>) -> Self {
        let path = instance_path(error);
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
                path: shorten(path_or_root(path)),
                expected: match kind {
                    TypeKind::Single(kind) => kind.to_string(),
                    TypeKind::Multiple(kinds) => {
                        let names: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
                        names.join(" or ")
                    }
                },
            },
            ValidationErrorKind::Enum { options } => Self::NotAllowed {
                path: shorten(path_or_root(path)),
                allowed: shorten_list(python_repr(options)),
            },
            ValidationErrorKind::Constant { expected_value } => Self::NotAllowed {
                path: shorten(path_or_root(path)),
                allowed: shorten_list(python_repr(&Value::Array(vec![
                    expected_value.as_ref().clone(),
                ]))),
            },
            _ => Self::Other {
                path: shorten(path_or_root(path)),
                reason: shorten(reason(error, "the value")),
            },
        }
    }

    /// Creates the error for arguments that do not match the schema if the first violation is not
    /// known, for example because the check had no time left to find it.
    pub(super) fn without_reason() -> Self {
        Self::Other {
            path: "arguments".to_owned(),
            reason: "the arguments do not match the schema".to_owned(),
        }
    }

    pub(super) fn from_abort(abort_reason: CheckAborted) -> Self {
        Self::Other {
            path: "arguments".to_owned(),
            reason: abort_reason.to_string(),
        }
    }

    /// Returns the name of the top-level parameter that violates the schema.
    pub(super) fn parameter(&self) -> &str {
        let (Self::Missing { path }
        | Self::Type { path, .. }
        | Self::NotAllowed { path, .. }
        | Self::Other { path, .. }) = self;
        path.split(['.', '[']).next().unwrap_or(path)
    }
}

/// Returns the validator's message about the violated rule, with the placeholder `value` instead of
/// the value.
pub(super) fn reason(error: &ValidationError<'_>, value: &str) -> String {
    match error.kind() {
        ValidationErrorKind::Not { schema } => {
            let mut schema = schema.clone();
            remove_counters(&mut schema);
            format!("{schema} is not allowed for {value}")
        }
        // This message may contain property names, because they are not confidential, and a
        // placeholder cannot replace them.
        ValidationErrorKind::PropertyNames { error } => {
            reason(error, &error.instance().to_string())
        }
        _ => error.masked_with(value).to_string(),
    }
}

fn instance_path(error: &ValidationError<'_>) -> String {
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

fn path_or_root(path: String) -> String {
    if path.is_empty() {
        "arguments".to_owned()
    } else {
        path
    }
}

fn shorten(text: String) -> String {
    shorten_text(MAX_PART_CHARS, text)
}

/// Shortens a list of allowed values, which a model reads to correct its call.
fn shorten_list(list: String) -> String {
    shorten_text(MAX_LIST_CHARS, list)
}

fn shorten_text(max_len: usize, text: String) -> String {
    match text.char_indices().nth(max_len) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
