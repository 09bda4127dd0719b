//! Helpers for the requests to all providers.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::tool_format::format_all;
use crate::{ModelError, ModelErrorKind, ModelTurn, ProviderApi, StrictFlag, ToolFormat};

/// The lists of a request body that the caller's `extra` members extend. For any other member, the
/// value in `extra` replaces the value in the body.
const EXTENDED_LISTS: [&str; 3] = ["tools", "include", "mcp_servers"];

/// The characters of a path segment that are percent-encoded: all except `unreserved` in RFC 3986.
const SEGMENT_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the headers of a request with a JSON body.
pub(crate) fn create_json_headers() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

/// Adds a header that is marked as sensitive, if there is a value. Debug output omits the value of
/// a sensitive header.
///
/// # Errors
/// [`Unauthorized`](ModelErrorKind::Unauthorized) if the value is not a valid header value.
pub(crate) fn put_secret(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: Option<&str>,
) -> Result<(), ModelError> {
    if let Some(value) = value {
        let problem = "The API key has characters that are not allowed in an HTTP header";
        let to_error = |_| ModelError::new(ModelErrorKind::Unauthorized, problem);
        let mut header = HeaderValue::from_str(value).map_err(to_error)?;
        header.set_sensitive(true);
        headers.insert(name, header);
    }
    Ok(())
}

/// Percent-encodes a path segment.
pub(crate) fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT_ESCAPES).to_string()
}

/// Returns the number at the beginning of a text, such as the generation in a model's name.
pub(crate) fn parse_leading_number(text: &str) -> Option<u32> {
    let number_end = text.find(|c: char| !c.is_ascii_digit());
    text[..number_end.unwrap_or(text.len())].parse().ok()
}

/// Merges the caller's provider-specific members into a body: objects are merged member by member,
/// the lists in [`EXTENDED_LISTS`] are extended, and other values are replaced.
pub(crate) fn add_extra(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (Some(Value::Object(existing_value)), Value::Object(addition)) => {
                add_extra(existing_value, addition);
            }
            (Some(Value::Array(existing_value)), Value::Array(addition))
                if EXTENDED_LISTS.contains(&key.as_str()) =>
            {
                existing_value.extend(addition.iter().cloned());
            }
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Inserts a member into a body, if there is a value.
pub(crate) fn put(body: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), value.into());
    }
}

/// Adds the members `tools` and `tool_choice` of a turn, whose names most providers share.
pub(crate) fn put_tools(
    body: &mut Map<String, Value>,
    turn: &ModelTurn<'_>,
    api: &impl ProviderApi,
) {
    put(body, "tools", format_turn_tools(turn, api));
    let choice = turn
        .options
        .tool_choice
        .as_ref()
        .map(|choice| api.tool_choice(choice));
    put(body, "tool_choice", choice);
}

/// Returns the tools of a turn in the provider's format, or `None` if the turn has no tools.
pub(crate) fn format_turn_tools(turn: &ModelTurn<'_>, api: &impl ToolFormat) -> Option<Vec<Value>> {
    let tools = turn.tools.iter().map(AsRef::as_ref);
    (!turn.tools.is_empty()).then(|| format_all(api, tools, StrictFlag::WhenTrue))
}

/// Removes members about tools from a request without tools, because the providers reject them.
pub(crate) fn remove_tool_members(body: &mut Map<String, Value>, tool_members: &[&str]) {
    if !body.contains_key("tools") {
        for key in tool_members {
            body.shift_remove(*key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Provider;

    #[test]
    fn h1_extra_is_merged_last() {
        let mut body = json!({
            "temperature": 1.0,
            "tools": [{"name": "ping"}],
            "generationConfig": {"topP": 0.5, "topK": 1},
            "stop": ["a"],
        });
        let extra = json!({
            "temperature": 0.2,
            "tools": [{"type": "mcp"}],
            "generationConfig": {"topK": 2},
            "stop": ["b"],
            "seed": 7,
        });
        add_extra(body.as_object_mut().unwrap(), extra.as_object().unwrap());
        assert_eq!(
            body,
            json!({
                "temperature": 0.2,
                "tools": [{"name": "ping"}, {"type": "mcp"}],
                "generationConfig": {"topP": 0.5, "topK": 2},
                "stop": ["b"],
                "seed": 7,
            })
        );
    }

    #[test]
    fn h4_a_key_is_a_sensitive_header_or_rejected() {
        for provider in Provider::ALL {
            let headers = provider.api().headers(Some("sk-secret")).unwrap();
            let is_key = |value: &HeaderValue| value.to_str().unwrap().ends_with("sk-secret");
            assert_eq!(headers.values().filter(|value| is_key(value)).count(), 1);
            assert!(!format!("{headers:?}").contains("sk-secret"));

            let error = provider.api().headers(Some("sk-secret\n")).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Unauthorized);
            assert!(!error.message.contains("sk-secret"));
        }
    }
}
