//! What a request says of itself in `_meta` and, over HTTP, once more in headers
//! (MCP 2026-07-28, "General fields" and "Request Metadata").

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::ProtocolVersion;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The parameters of a request, open for additions to `_meta`; all else stays raw.
pub(super) struct Metadata<'a> {
    params: IndexMap<Cow<'a, str>, Cow<'a, RawValue>>,
    meta: IndexMap<String, Box<RawValue>>,
}

type Entries<'a> = IndexMap<Cow<'a, str>, &'a RawValue>;

impl<'a> Metadata<'a> {
    /// # Errors
    /// When `params` or its `_meta` is no object.
    pub(super) fn of(params: &'a RawValue) -> Result<Self, serde_json::Error> {
        let entries: Entries<'a> = serde_json::from_str(params.get())?;
        let mut params: IndexMap<_, _> = entries
            .into_iter()
            .map(|(key, value)| (key, Cow::Borrowed(value)))
            .collect();
        let meta = match params.shift_remove("_meta") {
            Some(meta) => serde_json::from_str(meta.get())?,
            None => IndexMap::new(),
        };
        Ok(Self { params, meta })
    }

    /// Adds entries to `_meta`; one that is there already stays.
    pub(super) fn add(&mut self, entries: Map<String, Value>) -> Result<(), serde_json::Error> {
        for (key, value) in entries {
            if let indexmap::map::Entry::Vacant(entry) = self.meta.entry(key) {
                entry.insert(to_raw_value(&value)?);
            }
        }
        Ok(())
    }

    /// `Mcp-Method`, and `Mcp-Name` for methods that name what they are about.
    pub(super) fn mirrored_headers(&self, method: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(METHOD, header_value(method));
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return headers,
        };
        let named = self.params.get(key);
        if let Some(name) = named.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()) {
            headers.insert(NAME, header_value(&name));
        }
        headers
    }

    /// The parameters with `_meta` at their end.
    pub(super) fn into_params(mut self) -> Result<Box<RawValue>, serde_json::Error> {
        let meta = to_raw_value(&self.meta)?;
        self.params.insert(Cow::Borrowed("_meta"), Cow::Owned(meta));
        to_raw_value(&self.params)
    }
}

/// Who we are (`Implementation`).
pub(super) fn client_info() -> Value {
    json!({"name": "pillion", "version": env!("CARGO_PKG_VERSION")})
}

/// The entries of `_meta` that every request has since 2026-07-28.
pub(super) fn per_request(
    version: ProtocolVersion,
    capabilities: Map<String, Value>,
) -> Map<String, Value> {
    let mut meta = Map::new();
    let mut add =
        |key: &str, value: Value| meta.insert(format!("io.modelcontextprotocol/{key}"), value);
    add("protocolVersion", json!(version.as_str()));
    add("clientInfo", client_info());
    add("clientCapabilities", Value::Object(capabilities));
    meta
}

/// Text as a header's value: as it is where a header can hold it, else in Base64 between
/// `=?base64?` and `?=` ("Value Encoding").
pub(super) fn header_value(text: &str) -> HeaderValue {
    const PREFIX: &str = "=?base64?";
    const SUFFIX: &str = "?=";
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = text.trim_matches(' ') != text;
    let looks_encoded = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    let plain = HeaderValue::from_str(text).ok();
    match plain.filter(|_| printable && !padded && !looks_encoded) {
        Some(value) => value,
        None => {
            let encoded = format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(text));
            // Base64 is nothing but printable ASCII.
            HeaderValue::try_from(encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn additions_go_into_meta_and_the_rest_stays_as_it_was_written() {
        let params = raw(
            r#"{"_meta":{"a":1},"name":"x","arguments":{"n":1.50,"big":18446744073709551617}}"#,
        );
        let mut request = Metadata::of(&params).unwrap();
        let mut more = Map::new();
        more.insert("a".to_owned(), json!(2));
        more.insert("b".to_owned(), json!([]));
        request.add(more).unwrap();
        let params = request.into_params().unwrap();
        assert_eq!(
            params.get(),
            r#"{"name":"x","arguments":{"n":1.50,"big":18446744073709551617},"_meta":{"a":1,"b":[]}}"#
        );
        assert!(Metadata::of(&raw("[1]")).is_err());
        assert!(Metadata::of(&raw(r#"{"_meta":3}"#)).is_err());
    }

    #[test]
    fn headers_mirror_the_method_and_what_it_is_about() {
        let name = |method, params: &str| {
            let params = raw(params);
            let headers = Metadata::of(&params).unwrap().mirrored_headers(method);
            assert_eq!(headers["mcp-method"], method);
            headers
                .get("mcp-name")
                .map(|name| name.to_str().unwrap().to_owned())
        };
        assert_eq!(name("tools/list", "{}"), None);
        assert_eq!(name("tools/call", r#"{"name":"roll"}"#).unwrap(), "roll");
        assert_eq!(
            name("resources/read", r#"{"uri":"file:///a/b"}"#).unwrap(),
            "file:///a/b"
        );
        assert_eq!(name("prompts/get", r#"{"name":3}"#), None);
    }

    #[test]
    fn values_that_no_header_holds_are_encoded() {
        // The examples of the specification.
        for (text, value) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(header_value(text), value, "{text}");
        }
    }
}
