use std::collections::HashMap;

use serde_json::{Value, json};

use super::MAX_DEPTH;
use super::pointer::{Pointer, PointerRoot};
use crate::tool::JsonObject;

/// A JSON template with references. An object with a key that begins with `$` is a directive:
///
/// - `{"$from": "/input/city"}` is replaced by the referenced value. If the reference points to
///   nothing, the directive is replaced by the value of its key `"default"`, if present.
/// - `{"$text": ["In ", {"$from": "/input/city"}]}` is replaced by one string: strings are
///   concatenated as they are, other values as JSON.
/// - `{"$literal": ...}` is replaced by its value, which is not interpreted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Template {
    /// A string, number, boolean or null, or the value of `$literal`.
    Literal(Value),
    From {
        pointer: Pointer,
        default: Option<Value>,
    },
    Text(Vec<Template>),
    Array(Vec<Template>),
    Object(Vec<(String, Template)>),
}

/// The data to which references point.
pub(super) struct ReferenceScope<'a> {
    pub(super) input: &'a Value,
    pub(super) steps: &'a HashMap<String, Value>,
}

impl ReferenceScope<'_> {
    pub(super) fn find(&self, pointer: &Pointer) -> Option<&Value> {
        let root = match &pointer.source {
            PointerRoot::Input => self.input,
            PointerRoot::Step(name) => self.steps.get(name)?,
        };
        pointer.find(root)
    }
}

impl Template {
    /// Parses a template, or returns the location of an error in the template and the error.
    pub(super) fn parse(value: Value) -> Result<Self, (String, String)> {
        Self::parse_nested(value, 0)
    }

    fn parse_nested(value: Value, depth: usize) -> Result<Self, (String, String)> {
        // Templates may be nested four times as deeply as step groups.
        let max_template_depth = 4 * MAX_DEPTH;
        if depth > max_template_depth {
            let reason = format!("the value is nested more than {max_template_depth} levels deep");
            return Err((String::new(), reason));
        }
        let prefix_path = |path: String| {
            move |(inner_path, reason): (String, String)| (format!("{path}{inner_path}"), reason)
        };
        match value {
            Value::Array(items) => {
                let templates = items.into_iter().enumerate().map(|(index, item)| {
                    Self::parse_nested(item, depth + 1).map_err(prefix_path(format!("[{index}]")))
                });
                templates.collect::<Result<_, _>>().map(Self::Array)
            }
            Value::Object(members) if members.keys().any(|key| key.starts_with('$')) => {
                parse_directive(members, depth)
            }
            Value::Object(members) => {
                let templates = members.into_iter().map(|(key, value)| {
                    let template = Self::parse_nested(value, depth + 1)
                        .map_err(prefix_path(format!(".{key}")))?;
                    Ok((key, template))
                });
                templates.collect::<Result<_, _>>().map(Self::Object)
            }
            plain => Ok(Self::Literal(plain)),
        }
    }

    /// Fills in the references, or returns the first reference that points to nothing.
    pub(super) fn fill(&self, scope: &ReferenceScope<'_>) -> Result<Value, Pointer> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::From { pointer, default } => scope
                .find(pointer)
                .or(default.as_ref())
                .cloned()
                .ok_or_else(|| pointer.clone())?,
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part.fill(scope)? {
                        Value::String(part) => text += &part,
                        value => text += &value.to_string(),
                    }
                }
                Value::String(text)
            }
            Self::Array(items) => {
                let filled_items = items.iter().map(|item| item.fill(scope));
                Value::Array(filled_items.collect::<Result<_, _>>()?)
            }
            Self::Object(members) => {
                let filled_members = members
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.fill(scope)?)));
                Value::Object(filled_members.collect::<Result<_, Pointer>>()?)
            }
        })
    }

    /// Fills in the references. Omits members and items whose references point to nothing. Returns
    /// `None` if the template itself is such a reference.
    pub(super) fn fill_available(&self, scope: &ReferenceScope<'_>) -> Option<Value> {
        match self {
            Self::Array(items) => {
                let filled_items = items.iter().filter_map(|item| item.fill_available(scope));
                Some(Value::Array(filled_items.collect()))
            }
            Self::Object(members) => {
                let filled_members = members
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), value.fill_available(scope)?)));
                Some(Value::Object(filled_members.collect()))
            }
            template => template.fill(scope).ok(),
        }
    }

    /// Returns the template as JSON, which is equal for templates that always give the same output.
    pub(super) fn to_value(&self) -> Value {
        let list = |parts: &[Self]| Value::Array(parts.iter().map(Self::to_value).collect());
        match self {
            Self::Literal(value) => json!({"$literal": value}),
            Self::From { pointer, default } => {
                json!({"$from": pointer.to_string(), "default": default})
            }
            Self::Text(parts) => json!({"$text": list(parts)}),
            Self::Array(items) => list(items),
            Self::Object(members) => members
                .iter()
                .map(|(key, value)| (key.clone(), value.to_value()))
                .collect(),
        }
    }

    /// Calls `visit` for each reference; the second argument is whether the reference may point to
    /// nothing.
    pub(super) fn for_each_reference(&self, visit: &mut impl FnMut(&Pointer, bool)) {
        match self {
            Self::Literal(_) => {}
            Self::From { pointer, default } => visit(pointer, default.is_some()),
            Self::Text(parts) | Self::Array(parts) => {
                parts.iter().for_each(|part| part.for_each_reference(visit));
            }
            Self::Object(members) => {
                for (_, value) in members {
                    value.for_each_reference(visit);
                }
            }
        }
    }
}

/// Parses an object with a key that begins with `$`.
fn parse_directive(mut members: JsonObject, depth: usize) -> Result<Template, (String, String)> {
    let error_at_root = |reason: &str| (String::new(), reason.to_owned());
    if let Some(value) = members.remove("$literal") {
        if !members.is_empty() {
            return Err(error_at_root("no other key is allowed beside '$literal'"));
        }
        return Ok(Template::Literal(value));
    }
    if let Some(reference) = members.remove("$from") {
        let default = members.remove("default");
        let Value::String(reference) = reference else {
            return Err(error_at_root("'$from' must be a string"));
        };
        let pointer = Pointer::parse(&reference).map_err(|reason| error_at_root(&reason))?;
        if !members.is_empty() {
            return Err(error_at_root("only 'default' is allowed beside '$from'"));
        }
        return Ok(Template::From { pointer, default });
    }
    if let Some(parts) = members.remove("$text") {
        if !members.is_empty() {
            return Err(error_at_root("no other key is allowed beside '$text'"));
        }
        return match Template::parse_nested(parts, depth + 1)? {
            Template::Array(parts) => Ok(Template::Text(parts)),
            _ => Err(error_at_root("'$text' must be an array of parts")),
        };
    }
    let found_key = members.keys().find(|key| key.starts_with('$'));
    let unknown_key = found_key.map_or("$", String::as_str);
    Err(error_at_root(&format!(
        "unknown key '{unknown_key}': expected $from, $text, or $literal (whose value is used \
        unchanged)"
    )))
}
