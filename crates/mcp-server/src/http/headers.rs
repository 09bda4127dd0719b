use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::error_response_without_id;
use pillion_gateway::calling_client::message::INVALID_REQUEST;
use pillion_gateway::client_text::truncate_input;

pub(super) const SESSION_ID_HEADER: &str = "mcp-session-id";

/// Rejects requests that a browser sends for a web page from another machine (DNS rebinding). Such
/// requests have an `Origin` that is not local, whereas programs other than browsers send no
/// `Origin`.
pub(super) fn reject_origin(headers: &HeaderMap) -> Option<Response> {
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().unwrap_or_default();
    let uri = text.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host);
    let is_local = matches!(host, Some("localhost" | "127.0.0.1" | "[::1]"));
    (!is_local).then(|| {
        let origin = truncate_input(text);
        let reason =
            format!("Requests from the origin '{origin}' are not allowed: the origin is not local");
        error_response_without_id(StatusCode::FORBIDDEN, INVALID_REQUEST, &reason)
    })
}

/// Returns whether the client accepts an event stream.
pub(super) fn accepts_stream(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

/// Returns whether `Accept` names event streams. `*/*` does not suffice: a program that accepts
/// everything may be unable to read an event stream.
pub(super) fn accepts_stream_explicitly(headers: &HeaderMap) -> bool {
    parse_media_ranges(headers)
        .any(|range| range.eq_ignore_ascii_case("text/event-stream") || range == "text/*")
}

/// Returns the session ID, unless it is missing or empty.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(SESSION_ID_HEADER).filter(|id| !id.is_empty())
}

/// Returns whether the client accepts a single JSON message.
pub(super) fn accepts_json(headers: &HeaderMap) -> bool {
    accepts(headers, "application/json")
}

/// Returns the media ranges of the header `Accept`, without parameters.
fn parse_media_ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let accept_values = headers.get_all(header::ACCEPT).iter();
    accept_values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let main_type = media_type.split('/').next().unwrap_or_default();
    parse_media_ranges(headers).any(|range| {
        range.eq_ignore_ascii_case(media_type)
            || range == "*/*"
            || range.strip_suffix("/*") == Some(main_type)
    })
}

/// Returns the text of a header, decoded if the value was encoded because it contains characters
/// that headers cannot contain (MCP 2026-07-28, "Value Encoding").
pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    let encoded_text = value.strip_prefix("=?base64?");
    match encoded_text.and_then(|encoded_text| encoded_text.strip_suffix("?=")) {
        Some(encoded_text) => String::from_utf8(BASE64_STANDARD.decode(encoded_text).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// Returns the headers that repeat arguments of a tool call (`Mcp-Param-*`), by their lowercase
/// names. An unreadable header counts as missing.
pub(super) fn read_param_headers(headers: &HeaderMap) -> HashMap<String, String> {
    let names = headers.keys().map(axum::http::HeaderName::as_str);
    let params = names.filter(|name| name.starts_with("mcp-param-"));
    params
        .filter_map(|name| Some((name.to_owned(), text(headers, name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers_with(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))])
    }

    #[test]
    fn only_loopback_origins_are_allowed() {
        for (origin, is_rejected) in [
            ("http://localhost:3000", false),
            ("http://127.0.0.1", false),
            ("https://[::1]:8443", false),
            ("http://evil.example.com", true),
            ("http://localhost.evil.example.com", true),
            ("null", true),
            ("", true),
        ] {
            let has_rejection = reject_origin(&headers_with("origin", origin)).is_some();
            assert_eq!(has_rejection, is_rejected, "{origin}");
        }
        assert!(reject_origin(&HeaderMap::new()).is_none());
    }

    #[test]
    fn the_accept_header_has_several_valid_forms() {
        for accept in [
            "application/json, text/event-stream",
            "TEXT/EVENT-STREAM;q=0.5",
            "text/*",
            "*/*",
        ] {
            assert!(accepts_stream(&headers_with("accept", accept)), "{accept}");
        }
        assert!(!accepts_stream(&headers_with("accept", "application/json")));
        assert!(!accepts_stream(&HeaderMap::new()));
        for (accept, names_stream_expected) in [
            ("application/json, text/event-stream", true),
            ("Text/Event-Stream; q=0.5", true),
            ("text/*", true),
            ("*/*", false),
            ("application/json", false),
        ] {
            let names_stream_result = accepts_stream_explicitly(&headers_with("accept", accept));
            assert_eq!(names_stream_result, names_stream_expected, "{accept}");
        }
    }

    #[test]
    fn names_may_be_encoded() {
        let decode = |value| text(&headers_with("mcp-name", value), "mcp-name");
        assert_eq!(decode("us-west1").as_deref(), Some("us-west1"));
        let hello = decode("=?base64?SGVsbG8sIOS4lueVjA==?=");
        assert_eq!(hello.as_deref(), Some("Hello, 世界"));
        assert_eq!(decode("=?base64?%%?="), None);
    }
}
