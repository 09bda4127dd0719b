//! Request metadata in `_meta` and, over HTTP, in headers (MCP 2026-07-28, "General fields" and
//! "Request Metadata").

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use http::header::HeaderName;
use indexmap::IndexMap;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::ProtocolVersion;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The prefix of the `_meta` keys that the specification defines.
pub const RESERVED_PREFIX: &str = "io.modelcontextprotocol/";

/// The `_meta` key for the client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Headers that mirror parts of a message, each at most once.
pub(super) type MirroredHeaders = Vec<(HeaderName, HeaderValue)>;

/// The parameters of a request, to which entries of `_meta` can be added; all other members stay
/// raw JSON.
pub(super) struct Metadata<'a> {
    params: Params<'a>,
    meta: IndexMap<String, Box<RawValue>>,
    shared: Option<&'a Shared>,
}

/// Entries of `_meta` that many requests share, serialized once.
pub(super) struct Shared {
    entries: IndexMap<String, Box<RawValue>>,
    /// All entries as one object, for requests without other entries.
    object: Box<RawValue>,
}

impl Shared {
    fn new(entries: IndexMap<String, Box<RawValue>>) -> Result<Self, serde_json::Error> {
        let object = to_raw_value(&entries)?;
        Ok(Self { entries, object })
    }
}

impl<'a> Metadata<'a> {
    /// # Errors
    /// `params` or its `_meta` is not an object.
    pub(super) fn from_params(params: &'a RawValue) -> Result<Self, serde_json::Error> {
        let mut params: Params<'_> = serde_json::from_str(params.get())?;
        let meta = match params.take("_meta") {
            Some(meta) => serde_json::from_str(meta.get())?,
            None => IndexMap::new(),
        };
        Ok(Self {
            params,
            meta,
            shared: None,
        })
    }

    /// Adds entries to `_meta`, without replacing existing ones.
    pub(super) fn add(&mut self, entries: Map<String, Value>) -> Result<(), serde_json::Error> {
        for (key, value) in entries {
            if let indexmap::map::Entry::Vacant(entry) = self.meta.entry(key) {
                entry.insert(to_raw_value(&value)?);
            }
        }
        Ok(())
    }

    /// Adds entries to `_meta` that other requests share, without replacing existing or later
    /// [added](Self::add) ones.
    pub(super) fn share(&mut self, entries: &'a Shared) {
        self.shared = Some(entries);
    }

    /// Adds the headers that mirror the message: `Mcp-Method`, and `Mcp-Name` for methods that
    /// refer to a named object.
    pub(super) fn mirror(&self, method: &str, headers: &mut MirroredHeaders) {
        headers.push((METHOD, method_value(method)));
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return,
        };
        let param = self.params.get(key);
        let named = param.and_then(|raw| serde_json::from_str::<Text<'_>>(raw.get()).ok());
        if let Some(Text(name)) = named {
            headers.push((NAME, header_value(&name)));
        }
    }
}

/// The members of a JSON object in order. A list, because objects of parameters have few members.
struct Params<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string that is copied only if it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Params<'a> {
    /// Returns the last member with this name, which is the effective one.
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        let mut entries = self.0.iter().rev();
        entries.find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let found = self.get(name)?;
        self.0.retain(|(key, _)| key != name);
        Some(found)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Params<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'de>, A::Error> {
                // Requests usually have at most three parameters.
                let mut entries = Vec::with_capacity(3);
                while let Some((Text(key), raw)) = map.next_entry()? {
                    entries.push((key, raw));
                }
                Ok(Params(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Serializes the parameters with `_meta` as the last member.
impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Meta<'a>(&'a Metadata<'a>);
        impl Serialize for Meta<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Metadata { meta, shared, .. } = self.0;
                if let (true, Some(shared)) = (meta.is_empty(), shared) {
                    return shared.object.serialize(serializer);
                }
                let shared_entries = shared
                    .iter()
                    .flat_map(|shared| &shared.entries)
                    .filter(|(key, _)| !meta.contains_key(*key));
                serializer.collect_map(meta.iter().chain(shared_entries))
            }
        }
        let mut params = serializer.serialize_map(None)?;
        for (key, value) in &self.params.0 {
            params.serialize_entry(key, value)?;
        }
        params.serialize_entry("_meta", &Meta(self))?;
        params.end()
    }
}

/// Returns the name and version of this client (`Implementation`).
pub(super) fn client_info() -> Value {
    json!({"name": "pillion", "version": env!("CARGO_PKG_VERSION")})
}

/// Adds the extension to `capabilities` that allows a server to respond with a task: the client
/// always follows tasks for its callers (extension of 2026-07-28).
pub(super) fn with_tasks(mut capabilities: Map<String, Value>) -> Map<String, Value> {
    let extensions = capabilities
        .entry("extensions")
        .or_insert_with(|| json!({}));
    if let Some(extensions) = extensions.as_object_mut() {
        let tasks = "io.modelcontextprotocol/tasks".to_owned();
        extensions.insert(tasks, json!({}));
    }
    capabilities
}

/// Returns the `_meta` entries that every request has since revision 2026-07-28.
pub(super) fn per_request(
    version: ProtocolVersion,
    capabilities: Map<String, Value>,
) -> Result<Shared, serde_json::Error> {
    let entries = [
        ("protocolVersion", json!(version.as_str())),
        ("clientInfo", client_info()),
        ("clientCapabilities", Value::Object(capabilities)),
    ];
    let written = entries.into_iter().map(|(key, value)| {
        let key = format!("{RESERVED_PREFIX}{key}");
        Ok((key, to_raw_value(&value)?))
    });
    Shared::new(written.collect::<Result<_, serde_json::Error>>()?)
}

/// Returns a method as a header value; the values of common methods are static.
fn method_value(method: &str) -> HeaderValue {
    match method {
        "tools/call" => HeaderValue::from_static("tools/call"),
        other => header_value(other),
    }
}

/// Encodes text as a header value: unchanged if possible, otherwise as Base64 between `=?base64?`
/// and `?=` (MCP 2026-07-28, "Value Encoding").
pub(super) fn header_value(text: &str) -> HeaderValue {
    const PREFIX: &str = "=?base64?";
    const SUFFIX: &str = "?=";
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    let looks_encoded = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    let plain = HeaderValue::from_str(text).ok();
    match plain.filter(|_| printable && !padded && !looks_encoded) {
        Some(value) => value,
        None => {
            let encoded = format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(text));
            // Base64 consists of printable ASCII characters, so the conversion cannot fail.
            HeaderValue::try_from(encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn additions_to_meta_leave_the_rest_unchanged() {
        let params = raw(
            r#"{"_meta":{"a":1},"name":"x","arguments":{"n":1.50,"big":18446744073709551617}}"#,
        );
        let mut request = Metadata::from_params(&params).unwrap();
        let mut more = Map::new();
        more.insert("a".to_owned(), json!(2));
        more.insert("b".to_owned(), json!([]));
        request.add(more).unwrap();
        let entries = [("b", "2"), ("c", r#"{"d":1}"#)];
        let owned = entries.map(|(key, value)| (key.to_owned(), raw(value)));
        let shared = Shared::new(owned.into()).unwrap();
        request.share(&shared);
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"name":"x","arguments":{"n":1.50,"big":18446744073709551617},"_meta":{"a":1,"b":[],"c":{"d":1}}}"#
        );
        let params = raw("{}");
        let mut request = Metadata::from_params(&params).unwrap();
        request.share(&shared);
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"_meta":{"b":2,"c":{"d":1}}}"#
        );
        assert!(Metadata::from_params(&raw("[1]")).is_err());
        assert!(Metadata::from_params(&raw(r#"{"_meta":3}"#)).is_err());
    }

    #[test]
    fn headers_mirror_the_method_and_its_subject() {
        let name = |method, params: &str| {
            let params = raw(params);
            let mut mirrored = MirroredHeaders::new();
            Metadata::from_params(&params)
                .unwrap()
                .mirror(method, &mut mirrored);
            let headers: HeaderMap = mirrored.into_iter().collect();
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
    fn values_that_are_invalid_in_headers_are_encoded() {
        // The examples in the specification.
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
