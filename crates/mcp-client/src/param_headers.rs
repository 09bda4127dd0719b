//! Tool parameters that are mirrored in HTTP headers (MCP 2026-07-28, "Custom Headers from Tool
//! Parameters").

use http::header::HeaderName;
use serde_json::Value;

use super::metadata::{MirroredHeaders, header_value};

const HEADER_ANNOTATION: &str = "x-mcp-header";

/// Maximum number of mirrored headers of a call; servers limit headers, too.
const MAX_HEADERS: usize = 64;

/// A parameter that is mirrored in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParamHeader {
    /// The names of the properties that lead to the value in the arguments.
    path: Vec<String>,
    /// The header's name: `mcp-param-` followed by the name in the annotation.
    name: HeaderName,
}

/// Why a tool's header annotations are invalid; such a tool is skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParamHeaderError {
    #[error("an `x-mcp-header` is not a valid header name")]
    Name,
    #[error("more than {MAX_HEADERS} parameters have an `x-mcp-header`")]
    TooMany,
    #[error("two parameters have the `x-mcp-header` '{0}'")]
    Twice(String),
    #[error("the parameter '{0}' has an `x-mcp-header` but is not a string, integer or boolean")]
    Type(String),
    #[error("an `x-mcp-header` is only allowed on a plain property")]
    Misplaced,
}

/// Returns the parameters of an input schema that are mirrored in headers.
pub(super) fn from_schema(schema: &Value) -> Result<Vec<ParamHeader>, ParamHeaderError> {
    let mut found = Vec::new();
    visit(schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found)
}

/// Visits a schema and its subschemas. `path` is the schema's path through `properties` only;
/// `None` elsewhere.
fn visit(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), ParamHeaderError> {
    let entries = match schema {
        Value::Object(entries) => entries,
        Value::Array(schemas) => {
            return schemas
                .iter()
                .try_for_each(|schema| visit(schema, None, found));
        }
        _ => return Ok(()),
    };
    if let Some(annotation) = entries.get(HEADER_ANNOTATION) {
        let known_path = path.as_deref().filter(|path| !path.is_empty());
        let path = known_path.ok_or(ParamHeaderError::Misplaced)?;
        found.push(param_header(annotation, entries.get("type"), path, found)?);
    }
    for (keyword, value) in entries {
        match (keyword.as_str(), value) {
            // The values of these keywords are data, not schemas.
            ("const" | "enum" | "default" | "examples" | HEADER_ANNOTATION, _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    match path.as_deref_mut() {
                        Some(path) => {
                            path.push(name.clone());
                            visit(property, Some(path), found)?;
                            path.pop();
                        }
                        None => visit(property, None, found)?,
                    }
                }
            }
            (
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(named),
            ) => {
                named
                    .values()
                    .try_for_each(|schema| visit(schema, None, found))?;
            }
            _ => visit(value, None, found)?,
        }
    }
    Ok(())
}

fn param_header(
    annotation: &Value,
    kind: Option<&Value>,
    path: &[String],
    found: &[ParamHeader],
) -> Result<ParamHeader, ParamHeaderError> {
    if found.len() >= MAX_HEADERS {
        return Err(ParamHeaderError::TooMany);
    }
    let nonempty = annotation.as_str().filter(|name| !name.is_empty());
    let name = nonempty.ok_or(ParamHeaderError::Name)?;
    let parsed = HeaderName::try_from(format!("mcp-param-{name}"));
    let header = parsed.map_err(|_| ParamHeaderError::Name)?;
    if !matches!(
        kind.and_then(Value::as_str),
        Some("string" | "integer" | "boolean")
    ) {
        return Err(ParamHeaderError::Type(path.join(".")));
    }
    if found.iter().any(|other| other.name == header) {
        return Err(ParamHeaderError::Twice(name.to_owned()));
    }
    Ok(ParamHeader {
        path: path.to_vec(),
        name: header,
    })
}

/// Returns the first header of a `tools/call` that does not match the arguments: the server's side
/// of "Custom Headers from Tool Parameters" (MCP 2026-07-28). `header` returns the decoded value of
/// a header by its lower-case name. A schema whose annotations violate the rules requires no
/// headers.
///
/// ```
/// use pillion_mcp_client::param_header_mismatch;
/// use serde_json::json;
/// let schema = json!({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
/// let sent = |name: &str| (name == "mcp-param-region").then(|| "eu".to_owned());
/// assert_eq!(param_header_mismatch(&schema, &json!({"region": "eu"}), sent), None);
/// let wrong = param_header_mismatch(&schema, &json!({"region": "us"}), sent);
/// assert_eq!(wrong.as_deref(), Some("mcp-param-region"));
/// ```
#[must_use]
pub fn param_header_mismatch(
    schema: &Value,
    arguments: &Value,
    header: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let required = from_schema(schema).unwrap_or_default();
    let mut wrong = required
        .into_iter()
        .filter(|required| header(required.name.as_str()) != text_of(required, arguments));
    wrong
        .next()
        .map(|required| required.name.as_str().to_owned())
}

/// Returns the text of the argument that a header mirrors.
fn text_of(header: &ParamHeader, arguments: &Value) -> Option<String> {
    let at = |value, name: &String| Value::get(value, name);
    match header.path.iter().try_fold(arguments, at) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(value)) => Some(value.to_string()),
        Some(Value::Number(number)) => Some(match number.as_f64() {
            // A number such as 3.0 is an integer, and is formatted as one.
            Some(value) if !number.is_i64() && !number.is_u64() && value.fract() == 0.0 => {
                format!("{value:.0}")
            }
            _ => number.to_string(),
        }),
        _ => None,
    }
}

/// Returns the headers for one call. A value that is absent, null or of the wrong type has no
/// header; the server rejects a value of the wrong type anyway.
pub(super) fn mirrored_headers(headers: &[ParamHeader], arguments: &Value) -> MirroredHeaders {
    let mut mirrored = MirroredHeaders::new();
    for header in headers {
        if let Some(text) = text_of(header, arguments) {
            mirrored.push((header.name.clone(), header_value(&text)));
        }
    }
    mirrored
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use serde_json::json;

    #[test]
    fn values_are_read_at_their_exact_path() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "limits": {"type": "object", "properties": {
                "rows": {"type": "integer", "x-mcp-header": "Rows"},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            }},
            "x-mcp-header": {"type": "string"},
        }});
        let headers = from_schema(&schema).unwrap();
        let mirrored = |arguments: Value| mirrored_headers(&headers, &arguments);
        let map: HeaderMap =
            mirrored(json!({"region": "süd", "limits": {"rows": 42.0, "dry": false}}))
                .into_iter()
                .collect();
        assert_eq!(map["mcp-param-region"], "=?base64?c8O8ZA==?=");
        assert_eq!(map["mcp-param-rows"], "42");
        assert_eq!(map["mcp-param-dry"], "false");
        assert_eq!(mirrored(json!({"region": null, "limits": []})).len(), 0);
        assert_eq!(mirrored(json!({"rows": 1})).len(), 0);
    }

    #[test]
    fn a_tool_with_too_many_headers_is_rejected_at_once() {
        let annotated = |n| json!({"type": "string", "x-mcp-header": format!("H{n}")});
        let properties = (0..100_000).map(|n| (n.to_string(), annotated(n)));
        let schema = json!({"properties": properties.collect::<serde_json::Map<_, _>>()});
        assert_eq!(from_schema(&schema), Err(ParamHeaderError::TooMany));
    }

    #[test]
    fn invalid_annotations_are_rejected() {
        let string = json!({"type": "string", "x-mcp-header": "A"});
        for (property, error) in [
            (
                json!({"type": "string", "x-mcp-header": ""}),
                ParamHeaderError::Name,
            ),
            (
                json!({"type": "string", "x-mcp-header": "a b"}),
                ParamHeaderError::Name,
            ),
            (
                json!({"type": "string", "x-mcp-header": 3}),
                ParamHeaderError::Name,
            ),
            (
                json!({"type": "number", "x-mcp-header": "A"}),
                ParamHeaderError::Type("a".into()),
            ),
            (
                json!({"x-mcp-header": "A"}),
                ParamHeaderError::Type("a".into()),
            ),
            (
                json!({"type": "array", "items": string}),
                ParamHeaderError::Misplaced,
            ),
            (json!({"not": string}), ParamHeaderError::Misplaced),
        ] {
            let schema = json!({"properties": {"a": property}});
            assert_eq!(from_schema(&schema), Err(error), "{schema}");
        }
        for (schema, error) in [
            (
                json!({"properties": {"a": string, "b": {"type": "string", "x-mcp-header": "a"}}}),
                ParamHeaderError::Twice("a".into()),
            ),
            (
                json!({"x-mcp-header": "A", "type": "string"}),
                ParamHeaderError::Misplaced,
            ),
            (
                json!({"anyOf": [{"properties": {"a": string}}]}),
                ParamHeaderError::Misplaced,
            ),
            (json!({"$defs": {"a": string}}), ParamHeaderError::Misplaced),
        ] {
            assert_eq!(from_schema(&schema), Err(error), "{schema}");
        }
        let harmless = json!({"properties": {"a": {"type": "string", "default": string}}});
        assert_eq!(from_schema(&harmless), Ok(Vec::new()));
    }
}
