//! Parses the arguments of a call: `KEY=VALUE` pairs, or a JSON object.

use std::io::{self, Read};
use std::path::PathBuf;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::input::{read_bytes, to_text};
use super::typed::{self, SchemaTypes};

/// The arguments of a call, as written on the command line.
#[derive(Debug)]
pub(super) enum CommandArguments {
    /// A JSON object, unparsed.
    Json(Box<RawValue>),
    /// `KEY=VALUE` pairs. The tool's input schema determines the JSON type of each value.
    Pairs(Vec<(String, String)>),
}

impl Default for CommandArguments {
    fn default() -> Self {
        Self::Pairs(Vec::new())
    }
}

/// Why the words of a command line are not valid arguments.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentsError {
    #[error(
        "'{word}' is neither KEY=VALUE nor a JSON object (- reads the object from standard \
        input, @FILE from a file)"
    )]
    InvalidWord { word: String },
    #[error("unexpected argument '{word}': a JSON object must be the only argument")]
    ExtraWord { word: String },
    #[error("the arguments are not a JSON object: {0}")]
    InvalidJson(#[source] serde_json::Error),
    #[error("the arguments must be a JSON object, not another JSON value")]
    NotAnObject,
    #[error("cannot read the arguments from standard input: {0}")]
    ReadInput(#[source] io::Error),
    #[error("cannot read the arguments in {}: {source}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("'{key}' must be {types}, not '{value}'")]
    WrongType {
        key: String,
        types: SchemaTypes,
        value: String,
    },
    #[error("'{key}' is set twice")]
    DuplicateKey { key: String },
    #[error("cannot encode the arguments as JSON: {0}")]
    Encode(#[source] serde_json::Error),
}

impl CommandArguments {
    /// Parses the arguments of a call from the command line; `-` means standard input, and `@FILE`
    /// means the content of a file.
    pub(super) fn read(words: Vec<String>) -> Result<Self, ArgumentsError> {
        let first_word = words.first().map(String::as_str).unwrap_or_default();
        let text = if first_word == "-" {
            read_to_string(io::stdin().lock()).map_err(ArgumentsError::ReadInput)?
        } else if let Some(path) = first_word.strip_prefix('@') {
            std::fs::File::open(path)
                .and_then(read_to_string)
                .map_err(|source| ArgumentsError::ReadFile {
                    path: path.into(),
                    source,
                })?
        } else if is_json(first_word) {
            first_word.to_owned()
        } else {
            return parse_pairs(words).map(Self::Pairs);
        };
        if let Some(word) = words.into_iter().nth(1) {
            return Err(ArgumentsError::ExtraWord { word });
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let json: Box<RawValue> =
            serde_json::from_str(text.trim()).map_err(ArgumentsError::InvalidJson)?;
        if !json.get().starts_with('{') {
            return Err(ArgumentsError::NotAnObject);
        }
        Ok(Self::Json(json))
    }

    /// Returns whether the JSON types of the arguments depend on the tool's input schema.
    pub(super) fn needs_schema(&self) -> bool {
        matches!(self, Self::Pairs(pairs) if !pairs.is_empty())
    }

    /// Returns the arguments as a JSON object. `schema` is the tool's input schema, or null if
    /// unknown.
    pub(super) fn for_schema(self, schema: &Value) -> Result<Box<RawValue>, ArgumentsError> {
        let pairs = match self {
            Self::Json(json) => return Ok(json),
            Self::Pairs(pairs) => pairs,
        };
        let mut arguments = Map::new();
        for (key, text) in pairs {
            let property = &schema["properties"][&key];
            let value = match typed::parse_value(&text, property, schema) {
                Ok(value) => value,
                Err(types) if types.has_type("array") => {
                    let item = parse_array_item(&key, &text, property, schema)?;
                    match arguments.get_mut(&key) {
                        Some(Value::Array(items)) => {
                            items.push(item);
                            continue;
                        }
                        _ => Value::Array(vec![item]),
                    }
                }
                Err(types) => {
                    let value = text;
                    return Err(ArgumentsError::WrongType { key, types, value });
                }
            };
            if arguments.insert(key.clone(), value).is_some() {
                return Err(ArgumentsError::DuplicateKey { key });
            }
        }
        to_raw_value(&arguments).map_err(ArgumentsError::Encode)
    }

    /// Returns the arguments of a prompt as a JSON object whose values are all strings.
    pub(super) fn into_string_arguments(self) -> Result<Box<RawValue>, ArgumentsError> {
        let pairs = match self {
            Self::Json(json) => return Ok(json),
            Self::Pairs(pairs) => pairs,
        };
        let mut arguments = Map::new();
        for (key, text) in pairs {
            if arguments.insert(key.clone(), Value::String(text)).is_some() {
                return Err(ArgumentsError::DuplicateKey { key });
            }
        }
        to_raw_value(&arguments).map_err(ArgumentsError::Encode)
    }
}

/// Parses the value of one pair as an item of an array parameter. Each pair adds an item, as in
/// `tag=a tag=b`.
fn parse_array_item(
    key: &str,
    text: &str,
    property: &Value,
    root: &Value,
) -> Result<Value, ArgumentsError> {
    typed::parse_value(text, &property["items"], root).map_err(|types| ArgumentsError::WrongType {
        key: key.to_owned(),
        types,
        value: text.to_owned(),
    })
}

fn parse_pairs(words: Vec<String>) -> Result<Vec<(String, String)>, ArgumentsError> {
    let parse_pair = |word: String| match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(ArgumentsError::InvalidWord { word }),
    };
    words.into_iter().map(parse_pair).collect()
}

fn is_json(word: &str) -> bool {
    word.trim_start().starts_with(['{', '['])
}

fn read_to_string(source: impl Read) -> io::Result<String> {
    to_text(read_bytes(source)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the typed arguments as JSON, or the error as text.
    fn type_arguments(words: &[&str], schema: &Value) -> String {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        CommandArguments::read(words)
            .and_then(|arguments| arguments.for_schema(schema))
            .map_or_else(|error| error.to_string(), |json| json.get().to_owned())
    }

    #[test]
    fn pairs_are_typed_by_the_schema() {
        let schema = json!({"properties": {
            "a": {"type": "number"}, "text": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "integer"}},
        }});
        for (words, expected) in [
            (
                &["a=1", "text=1", "other=1", "more=x=y"][..],
                r#"{"a":1,"text":"1","other":1,"more":"x=y"}"#,
            ),
            (&["tags=1", "tags=2"], r#"{"tags":[1,2]}"#),
            (&["tags=[1, 2]"], r#"{"tags":[1,2]}"#),
            (&[], "{}"),
            (&["{}"], "{}"),
            (&["a=x"], "'a' must be a number, not 'x'"),
            (&["tags=x"], "'tags' must be an integer, not 'x'"),
            (&["text=a", "text=b"], "'text' is set twice"),
        ] {
            assert_eq!(type_arguments(words, &schema), expected);
        }
    }

    #[test]
    fn json_goes_through_as_it_is() {
        let json = r#"{"n": 18446744073709551617, "b":1.50}"#;
        assert_eq!(type_arguments(&[json], &Value::Null), json);
        let not_object = "the arguments must be a JSON object, not another JSON value";
        assert_eq!(type_arguments(&["[1]"], &Value::Null), not_object);
        for (words, expected_start) in [
            (&["{"][..], "the arguments are not a JSON object: "),
            (&["{}", "a=1"], "unexpected argument 'a=1'"),
            (&["nonsense"], "'nonsense' is neither KEY=VALUE"),
            (
                &["@/nowhere/x.json"],
                "cannot read the arguments in /nowhere/x.json",
            ),
        ] {
            let text = type_arguments(words, &Value::Null);
            assert!(text.starts_with(expected_start), "{text}");
        }
    }
}
