//! Tool parameters that are mirrored in HTTP headers (MCP 2026-07-28, "Custom Headers from Tool
//! Parameters").

use http::header::HeaderName;
use serde_json::Value;

use super::message::{MirroredHeaders, encode_header_value};

const HEADER_ANNOTATION: &str = "x-mcp-header";

/// Maximum number of parameters of a tool that are mirrored in headers; servers limit the number of
/// headers, too.
const MAX_PARAM_HEADERS: usize = 64;

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
    #[error("the `x-mcp-header` of the parameter '{0}' is not a valid header name")]
    InvalidName(String),
    #[error("more than {MAX_PARAM_HEADERS} parameters have an `x-mcp-header`")]
    TooManyHeaders,
    #[error("two parameters have the `x-mcp-header` '{0}'")]
    DuplicateHeader(String),
    #[error("the parameter '{0}' has an `x-mcp-header` but is not a string, integer or boolean")]
    UnsupportedType(String),
    #[error(
        "`x-mcp-header` is only allowed on a property that is reachable through `properties` alone"
    )]
    MisplacedAnnotation,
}

/// Returns the parameters of an input schema that are mirrored in headers.
pub(super) fn from_schema(schema: &Value) -> Result<Vec<ParamHeader>, ParamHeaderError> {
    let mut headers = Vec::new();
    collect_headers(schema, Some(&mut Vec::new()), &mut headers)?;
    Ok(headers)
}

/// Visits a schema and its subschemas. `path` is the path of a schema that is reached only through
/// `properties`; `None` for every other schema.
fn collect_headers(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    headers: &mut Vec<ParamHeader>,
) -> Result<(), ParamHeaderError> {
    let entries = match schema {
        Value::Object(entries) => entries,
        Value::Array(schemas) => {
            return schemas
                .iter()
                .try_for_each(|schema| collect_headers(schema, None, headers));
        }
        _ => return Ok(()),
    };
    if let Some(annotation) = entries.get(HEADER_ANNOTATION) {
        let nested_path = path.as_deref().filter(|path| !path.is_empty());
        let property_path = nested_path.ok_or(ParamHeaderError::MisplacedAnnotation)?;
        let header = parse_header(annotation, entries.get("type"), property_path, headers)?;
        headers.push(header);
    }
    for (keyword, value) in entries {
        match (keyword.as_str(), value) {
            // The values of these keywords are data, not schemas, so they are not searched for
            // annotations.
            ("const" | "enum" | "default" | "examples" | HEADER_ANNOTATION, _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    match path.as_deref_mut() {
                        Some(path) => {
                            path.push(name.clone());
                            collect_headers(property, Some(path), headers)?;
                            path.pop();
                        }
                        None => collect_headers(property, None, headers)?,
                    }
                }
            }
            (
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(subschemas),
            ) => {
                subschemas
                    .values()
                    .try_for_each(|schema| collect_headers(schema, None, headers))?;
            }
            _ => collect_headers(value, None, headers)?,
        }
    }
    Ok(())
}

/// Returns the header that an annotation requires.
fn parse_header(
    annotation: &Value,
    parameter_type: Option<&Value>,
    path: &[String],
    earlier_headers: &[ParamHeader],
) -> Result<ParamHeader, ParamHeaderError> {
    if earlier_headers.len() >= MAX_PARAM_HEADERS {
        return Err(ParamHeaderError::TooManyHeaders);
    }
    let invalid_name = || ParamHeaderError::InvalidName(path.join("."));
    let text = annotation.as_str().filter(|name| !name.is_empty());
    let name = text.ok_or_else(invalid_name)?;
    let header = HeaderName::try_from(format!("mcp-param-{name}")).map_err(|_| invalid_name())?;
    let type_name = parameter_type.and_then(Value::as_str);
    if !matches!(type_name, Some("string" | "integer" | "boolean")) {
        return Err(ParamHeaderError::UnsupportedType(path.join(".")));
    }
    if earlier_headers.iter().any(|earlier| earlier.name == header) {
        return Err(ParamHeaderError::DuplicateHeader(name.to_owned()));
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
    let required_headers = from_schema(schema).unwrap_or_default();
    let mut mismatches = required_headers.into_iter().filter(|required_header| {
        header(required_header.name.as_str()) != format_argument(required_header, arguments)
    });
    let mismatch = mismatches.next()?;
    Some(mismatch.name.as_str().to_owned())
}

/// Returns the text of the argument that a header mirrors.
fn format_argument(header: &ParamHeader, arguments: &Value) -> Option<String> {
    let get_member = |value, name: &String| Value::get(value, name);
    match header.path.iter().try_fold(arguments, get_member) {
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
pub(super) fn mirror_headers(headers: &[ParamHeader], arguments: &Value) -> MirroredHeaders {
    let mut mirrored_headers = MirroredHeaders::new();
    for header in headers {
        if let Some(text) = format_argument(header, arguments) {
            mirrored_headers.push((header.name.clone(), encode_header_value(&text)));
        }
    }
    mirrored_headers
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
        let mirrored = |arguments: Value| mirror_headers(&headers, &arguments);
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
        assert_eq!(from_schema(&schema), Err(ParamHeaderError::TooManyHeaders));
    }

    #[test]
    fn invalid_annotations_are_rejected() {
        let string = json!({"type": "string", "x-mcp-header": "A"});
        let bad_name = || ParamHeaderError::InvalidName("a".into());
        let bad_type = || ParamHeaderError::UnsupportedType("a".into());
        let misplaced = || ParamHeaderError::MisplacedAnnotation;
        for (property, error) in [
            (json!({"type": "string", "x-mcp-header": ""}), bad_name()),
            (json!({"type": "string", "x-mcp-header": "a b"}), bad_name()),
            (json!({"type": "string", "x-mcp-header": 3}), bad_name()),
            (json!({"type": "number", "x-mcp-header": "A"}), bad_type()),
            (json!({"x-mcp-header": "A"}), bad_type()),
            (json!({"type": "array", "items": string}), misplaced()),
            (json!({"not": string}), misplaced()),
        ] {
            let schema = json!({"properties": {"a": property}});
            assert_eq!(from_schema(&schema), Err(error), "{schema}");
        }
        for (schema, error) in [
            (
                json!({"properties": {"a": string, "b": {"type": "string", "x-mcp-header": "a"}}}),
                ParamHeaderError::DuplicateHeader("a".into()),
            ),
            (json!({"x-mcp-header": "A", "type": "string"}), misplaced()),
            (
                json!({"anyOf": [{"properties": {"a": string}}]}),
                misplaced(),
            ),
            (json!({"$defs": {"a": string}}), misplaced()),
        ] {
            assert_eq!(from_schema(&schema), Err(error), "{schema}");
        }
        let harmless = json!({"properties": {"a": {"type": "string", "default": string}}});
        assert_eq!(from_schema(&harmless), Ok(Vec::new()));
    }
}
