use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::invalid;
use pillion_gateway::calling_client::message::INVALID_REQUEST;

pub(super) const SESSION_ID: &str = "mcp-session-id";

/// Rejects requests that a browser sends for a web page from another machine (DNS rebinding): their
/// `Origin` is not local. Programs send no `Origin`.
pub(super) fn reject_origin(headers: &HeaderMap) -> Option<Response> {
    let origin = headers.get(header::ORIGIN)?;
    let uri = origin.to_str().ok().and_then(|it| it.parse::<Uri>().ok());
    let host = uri.as_ref().and_then(Uri::host);
    let is_local = matches!(host, Some("localhost" | "127.0.0.1" | "[::1]"));
    (!is_local).then(|| {
        let reason = "Requests from this origin are not allowed";
        invalid(StatusCode::FORBIDDEN, INVALID_REQUEST, reason)
    })
}

/// Returns whether the client accepts an event stream.
pub(super) fn accepts_stream(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

/// Returns whether `Accept` names event streams. `*/*` does not suffice: a program that accepts
/// everything may be unable to read an event stream.
pub(super) fn names_stream(headers: &HeaderMap) -> bool {
    ranges(headers)
        .any(|range| range.eq_ignore_ascii_case("text/event-stream") || range == "text/*")
}

/// Returns the session id, unless it is missing or empty.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(SESSION_ID).filter(|id| !id.is_empty())
}

/// Returns whether the client accepts a single JSON message.
pub(super) fn accepts_json(headers: &HeaderMap) -> bool {
    accepts(headers, "application/json")
}

/// Returns the media ranges of the header `Accept`, without parameters.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let family = media_type.split('/').next().unwrap_or_default();
    ranges(headers).any(|range| {
        range.eq_ignore_ascii_case(media_type)
            || range == "*/*"
            || range.strip_suffix("/*") == Some(family)
    })
}

/// Returns the text of a header, decoded if the value was encoded because it contains characters
/// that headers cannot contain (MCP 2026-07-28, "Value Encoding").
pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    let encoded = value.strip_prefix("=?base64?");
    match encoded.and_then(|encoded| encoded.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// Returns the headers that repeat parameters of a tool, by their lowercase names. An unreadable
/// header counts as missing.
pub(super) fn params(headers: &HeaderMap) -> HashMap<String, String> {
    let names = headers.keys().map(axum::http::HeaderName::as_str);
    let params = names.filter(|name| name.starts_with("mcp-param-"));
    params
        .filter_map(|name| Some((name.to_owned(), text(headers, name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
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
            let rejected = reject_origin(&with("origin", origin)).is_some();
            assert_eq!(rejected, is_rejected, "{origin}");
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
            assert!(accepts_stream(&with("accept", accept)), "{accept}");
        }
        assert!(!accepts_stream(&with("accept", "application/json")));
        assert!(!accepts_stream(&HeaderMap::new()));
        for (accept, is_named) in [
            ("application/json, text/event-stream", true),
            ("Text/Event-Stream; q=0.5", true),
            ("text/*", true),
            ("*/*", false),
            ("application/json", false),
        ] {
            let named = names_stream(&with("accept", accept));
            assert_eq!(named, is_named, "{accept}");
        }
    }

    #[test]
    fn names_may_be_encoded() {
        let decoded = |value| text(&with("mcp-name", value), "mcp-name");
        assert_eq!(decoded("us-west1").as_deref(), Some("us-west1"));
        let hello = decoded("=?base64?SGVsbG8sIOS4lueVjA==?=");
        assert_eq!(hello.as_deref(), Some("Hello, 世界"));
        assert_eq!(decoded("=?base64?%%?="), None);
    }
}
