//! The messages of MCP: the envelope of JSON-RPC 2.0, and request metadata in `_meta` and, over
//! HTTP, in headers (MCP 2026-07-28, "General fields" and "Request Metadata"). Parts that the
//! client does not interpret stay raw JSON.

mod line;
mod message_id;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::HeaderName;
use indexmap::IndexMap;
use pillion_schema::{json_values, lone_surrogates};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

pub(crate) use line::MessageLine;
pub(crate) use message_id::{ResponseIdScan, RpcRequestId};

use crate::ProtocolVersion;
use crate::peer_text::{MAX_ERROR_TEXT_BYTES, shorten};
use crate::secrets::Secrets;

const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The prefix of the `_meta` keys that the specification defines.
pub const RESERVED_PREFIX: &str = "io.modelcontextprotocol/";

/// The `_meta` key for the client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The error of a JSON-RPC response.
#[derive(Debug, Clone, Serialize)]
pub struct RpcError {
    /// The error code; -1 if the server sent no code.
    pub code: i64,
    /// The error message, [shortened](crate::MAX_ERROR_TEXT_BYTES); `Unknown MCP error` if the
    /// server sent none.
    pub message: String,
    /// The member `data` of the error, which the client does not interpret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// Creates an error, with the message shortened to [`MAX_ERROR_TEXT_BYTES`].
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: shorten(message.into(), MAX_ERROR_TEXT_BYTES),
            data: None,
        }
    }

    /// Removes credentials from the message and the data.
    pub(crate) fn redact(&mut self, secrets: &Secrets) {
        secrets.redact(&mut self.message);
        if let Some(data) = &mut self.data
            && let Cow::Owned(text) = secrets.redacted(data.get())
        {
            // The data becomes `null` if removing the credentials makes it invalid JSON, which
            // happens only if a credential is also a part of the JSON syntax.
            *data = RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned());
        }
    }

    /// Reads the JSON-RPC error in the body of an HTTP error. For a batch, returns the first error.
    ///
    /// Frameworks and proxies also send JSON with an `error` member, such as `{"error": "boom"}`.
    /// Only a JSON-RPC 2.0 message whose error has a code and a message counts.
    pub(crate) fn from_error_body(body: &[u8]) -> Option<Self> {
        let body_text = std::str::from_utf8(body).ok()?;
        let text = body_text.trim_start_matches('\u{feff}').trim();
        if !text.starts_with('[') {
            return Self::from_error_message(text);
        }
        let batch: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let mut messages = batch.into_iter();
        messages.find_map(|message| Self::from_error_message(message.get()))
    }

    fn from_error_message(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct ErrorMessage<'a> {
            #[serde(borrow)]
            jsonrpc: Cow<'a, str>,
            #[serde(borrow)]
            error: &'a RawValue,
        }
        let ErrorMessage { jsonrpc, error } = serde_json::from_str(text).ok()?;
        parse_strict_error(error).filter(|_| jsonrpc == "2.0")
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MCP Error {}: {}", self.code, self.message)
    }
}

impl std::error::Error for RpcError {}

/// The payload of a response: the raw `result`, or the error.
pub(crate) type RpcOutcome = Result<Box<RawValue>, RpcError>;

/// A message from a server.
#[derive(Debug)]
pub(crate) enum IncomingMessage {
    /// A response to a request of this client.
    Response {
        id: RpcRequestId,
        outcome: RpcOutcome,
    },
    /// A request of the server, which expects a response.
    Request {
        id: Box<RawValue>,
        method: String,
        params: Option<Box<RawValue>>,
    },
    /// A notification, which expects no response.
    Notification {
        method: String,
        params: Option<Box<RawValue>>,
    },
}

#[derive(Deserialize)]
#[serde(expecting = "a JSON-RPC message")]
struct RawEnvelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_nullable")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Deserializes `null` as a value, to tell `"result": null` from a missing result.
fn deserialize_nullable<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl IncomingMessage {
    /// Parses one message, or a batch, which revision 2025-03-26 requires clients to accept. Skips
    /// values in a batch that are not JSON-RPC messages.
    ///
    /// # Errors
    /// `text` is not JSON, is a single value that is not a JSON-RPC message, or is a batch of more
    /// than 10,000 values, which would take many times the memory of the text.
    pub(crate) fn parse(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        if !text.trim_start().starts_with('[') {
            return Self::parse_message(text).map(|message| vec![message]);
        }
        let mut batch = serde_json::Deserializer::from_str(text);
        let messages = batch.deserialize_seq(BatchVisitor)?;
        batch.end()?;
        Ok(messages)
    }

    fn parse_message(text: &str) -> Result<Self, serde_json::Error> {
        Self::parse_with_version(text).map(|(message, _)| message)
    }

    /// Parses one message. The returned flag is `true` if the message has `"jsonrpc": "2.0"`.
    fn parse_with_version(text: &str) -> Result<(Self, bool), serde_json::Error> {
        let valid_text = lone_surrogates::replace(text);
        let envelope: RawEnvelope<'_> = serde_json::from_str(&valid_text)?;
        let version = envelope.jsonrpc.map(RawValue::get);
        let message = Self::from_envelope(envelope)?;
        Ok((message, version == Some("\"2.0\"")))
    }

    fn from_envelope(envelope: RawEnvelope<'_>) -> Result<Self, serde_json::Error> {
        use serde::de::Error;
        if let Some(params) = envelope.params {
            json_values::check(params.get().as_bytes()).map_err(Error::custom)?;
        }
        match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => Ok(Self::Request {
                id: id.to_owned(),
                method: method.into_owned(),
                params: envelope.params.map(ToOwned::to_owned),
            }),
            (Some(method), None) => Ok(Self::Notification {
                method: method.into_owned(),
                params: envelope.params.map(ToOwned::to_owned),
            }),
            (None, Some(id)) => {
                let outcome = match (envelope.error, envelope.result) {
                    (Some(error), _) => Err(parse_lenient_error(error)),
                    (None, Some(result)) => Ok(result.to_owned()),
                    (None, None) => {
                        return Err(Error::custom("a response with neither result nor error"));
                    }
                };
                let id = RpcRequestId::read(id)?;
                Ok(Self::Response { id, outcome })
            }
            (None, None) => match envelope.error {
                // An error without an ID gets an empty ID, because the server could not read the ID
                // of the request.
                Some(error) => Ok(Self::Response {
                    id: RpcRequestId::Text(String::new()),
                    outcome: Err(parse_lenient_error(error)),
                }),
                // A result without an ID is rejected, because some servers send such results in
                // addition to the actual response.
                None => Err(Error::custom("neither a request nor a response")),
            },
        }
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Vec<IncomingMessage>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        const MAX_BATCH_MESSAGES: usize = 10_000;
        let mut messages = Vec::new();
        let mut value_count = 0;
        while let Some(value) = values.next_element::<&RawValue>()? {
            value_count += 1;
            if value_count > MAX_BATCH_MESSAGES {
                return Err(serde::de::Error::custom(format_args!(
                    "a batch has more than {MAX_BATCH_MESSAGES} messages"
                )));
            }
            messages.extend(IncomingMessage::parse_message(value.get()));
        }
        Ok(messages)
    }
}

impl<'de> Deserialize<'de> for RpcError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw_error| parse_lenient_error(&raw_error))
    }
}

/// Parses an error object as JSON-RPC 2.0 defines it.
fn parse_strict_error(raw_error: &RawValue) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct ErrorObject {
        code: i64,
        message: String,
        data: Option<Box<RawValue>>,
    }
    let error: ErrorObject = serde_json::from_str(raw_error.get()).ok()?;
    Some(RpcError {
        data: error.data,
        ..RpcError::new(error.code, error.message)
    })
}

/// Parses an error object, even if it is malformed. Some servers send a text instead of the error
/// object or instead of the code, or omit the code.
fn parse_lenient_error(raw_error: &RawValue) -> RpcError {
    const MISSING_ERROR_CODE: i64 = -1;
    if let Err(error) = json_values::check(raw_error.get().as_bytes()) {
        let message = format!("the server's error has {error}");
        return RpcError::new(MISSING_ERROR_CODE, message);
    }
    if let Some(error) = parse_strict_error(raw_error) {
        return error;
    }
    let mut error = serde_json::from_str(raw_error.get()).unwrap_or(Value::Null);
    if let Some(first_item) = error.get_mut(0) {
        error = first_item.take();
    }
    let to_text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(values) if values.is_empty() => None,
        Value::Object(members) if members.is_empty() => None,
        value => Some(value.to_string()),
    };
    let code = match &error["code"] {
        Value::String(code) => code.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        code => code.as_i64().or_else(|| {
            let number = code.as_f64().filter(|number| number.abs() < 1e15)?;
            Some(number as i64)
        }),
    };
    let message = ["message", "data"]
        .iter()
        .find_map(|key| to_text(&error[key]))
        .or_else(|| to_text(&error).filter(|_| error.get("code").is_none()))
        .unwrap_or_else(|| "Unknown MCP error".to_owned());
    RpcError {
        data: Some(raw_error.to_owned()),
        ..RpcError::new(code.unwrap_or(MISSING_ERROR_CODE), message)
    }
}

/// Serializes a request. Returns an empty message if `params` cannot be serialized.
pub(crate) fn encode_request(
    id: &RpcRequestId,
    method: &str,
    params: &(impl Serialize + ?Sized),
) -> Bytes {
    // The members around `params` are written literally, because serializing their names would take
    // longer than everything else.
    let encode = || -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        serde_json::to_writer(&mut bytes, id)?;
        bytes.extend_from_slice(br#","method":"#);
        serde_json::to_writer(&mut bytes, method)?;
        bytes.extend_from_slice(br#","params":"#);
        serde_json::to_writer(&mut bytes, params)?;
        bytes.push(b'}');
        Ok(bytes)
    };
    encode().map_or_else(|_| Bytes::new(), Bytes::from)
}

/// Serializes a `ping` with an ID that no other request has.
pub(crate) fn encode_ping() -> (RpcRequestId, Bytes) {
    let id = RpcRequestId::Text(format!("mcp_{}", uuid::Uuid::new_v4().simple()));
    let message = encode_request(&id, "ping", &serde_json::Map::new());
    (id, message)
}

pub(crate) fn encode_notification<P: Serialize + ?Sized>(
    method: &str,
    params: Option<&P>,
) -> Bytes {
    #[derive(Serialize)]
    struct Notification<'a, P: ?Sized> {
        jsonrpc: &'static str,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a P>,
    }
    encode_message(&Notification {
        jsonrpc: "2.0",
        method,
        params,
    })
}

/// Serializes the response to a server's request.
pub(crate) fn encode_response(id: &RawValue, outcome: Result<Value, RpcError>) -> Bytes {
    #[derive(Serialize)]
    struct ResponseMessage<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(flatten)]
        payload: Payload,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Payload {
        Result(Value),
        Error(RpcError),
    }
    encode_message(&ResponseMessage {
        jsonrpc: "2.0",
        id,
        payload: match outcome {
            Ok(result) => Payload::Result(result),
            Err(error) => Payload::Error(error),
        },
    })
}

/// Serializes a message. Maps of strings and raw JSON can always be serialized. If serialization
/// failed nevertheless, the message would be empty, and the server would reject it.
fn encode_message(message: &impl Serialize) -> Bytes {
    let mut bytes = Vec::with_capacity(512);
    match serde_json::to_writer(&mut bytes, message) {
        Ok(()) => bytes.into(),
        Err(_) => Bytes::new(),
    }
}

/// Headers that mirror parts of a message, each at most once.
pub(super) type MirroredHeaders = Vec<(HeaderName, HeaderValue)>;

/// The parameters of a request, to which entries of `_meta` can be added; all other members stay
/// raw JSON.
pub(super) struct RequestMetadata<'a> {
    params: Params<'a>,
    meta: IndexMap<String, Box<RawValue>>,
    shared: Option<&'a SharedMetadata>,
}

/// Entries of `_meta` that many requests share, serialized once.
pub(super) struct SharedMetadata {
    entries: IndexMap<String, Box<RawValue>>,
    /// All entries as one object, for requests without other entries.
    object: Box<RawValue>,
}

impl SharedMetadata {
    fn new(entries: IndexMap<String, Box<RawValue>>) -> Result<Self, serde_json::Error> {
        let object = to_raw_value(&entries)?;
        Ok(Self { entries, object })
    }
}

impl<'a> RequestMetadata<'a> {
    /// Separates the `_meta` of a request from the other parameters.
    ///
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

    /// Adds entries to `_meta` that other requests share. Entries that exist already or are
    /// [added](Self::add) later take precedence.
    pub(super) fn add_shared(&mut self, entries: &'a SharedMetadata) {
        self.shared = Some(entries);
    }

    /// Adds the headers that mirror the message: `Mcp-Method`, and `Mcp-Name` for methods that
    /// refer to a named object.
    pub(super) fn add_mirrored_headers(&self, method: &str, headers: &mut MirroredHeaders) {
        headers.push((METHOD_HEADER, encode_method(method)));
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return,
        };
        let param = self.params.get(key);
        let name_text = param
            .and_then(|raw_value| serde_json::from_str::<BorrowedText<'_>>(raw_value.get()).ok());
        if let Some(BorrowedText(name)) = name_text {
            headers.push((NAME_HEADER, encode_header_value(&name)));
        }
    }
}

/// The members of a JSON object in order. Stored as a list, which is efficient because objects of
/// parameters have few members.
struct Params<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string that is copied only if it contains escapes.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Params<'a> {
    /// Returns the last member with this name, which is the effective one.
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        let mut entries = self.0.iter().rev();
        let (_, raw_value) = entries.find(|(key, _)| key == name)?;
        Some(raw_value)
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let value = self.get(name)?;
        self.0.retain(|(key, _)| key != name);
        Some(value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ParamsVisitor;
        impl<'de> Visitor<'de> for ParamsVisitor {
            type Value = Params<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'de>, A::Error> {
                // The capacity is three, because requests usually have at most three parameters.
                let mut entries = Vec::with_capacity(3);
                while let Some((BorrowedText(key), raw_value)) = map.next_entry()? {
                    entries.push((key, raw_value));
                }
                Ok(Params(entries))
            }
        }
        deserializer.deserialize_map(ParamsVisitor)
    }
}

/// Serializes the parameters with `_meta` as the last member.
impl Serialize for RequestMetadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Meta<'a>(&'a RequestMetadata<'a>);
        impl Serialize for Meta<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let RequestMetadata { meta, shared, .. } = self.0;
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

/// Adds the extension that allows a server to respond with a task (2026-07-28) to `capabilities`.
/// The client always supports this extension, because it polls tasks for its callers.
pub(super) fn add_tasks_extension(mut capabilities: Map<String, Value>) -> Map<String, Value> {
    let extensions = capabilities
        .entry("extensions")
        .or_insert_with(|| json!({}));
    if let Some(extensions) = extensions.as_object_mut() {
        let tasks_extension = "io.modelcontextprotocol/tasks".to_owned();
        extensions.insert(tasks_extension, json!({}));
    }
    capabilities
}

/// Returns the `_meta` entries that every request has since revision 2026-07-28.
pub(super) fn shared_metadata(
    version: ProtocolVersion,
    capabilities: Map<String, Value>,
) -> Result<SharedMetadata, serde_json::Error> {
    let entries = [
        ("protocolVersion", json!(version.as_str())),
        ("clientInfo", client_info()),
        ("clientCapabilities", Value::Object(capabilities)),
    ];
    let raw_entries = entries.into_iter().map(|(key, value)| {
        let full_key = format!("{RESERVED_PREFIX}{key}");
        Ok((full_key, to_raw_value(&value)?))
    });
    SharedMetadata::new(raw_entries.collect::<Result<_, serde_json::Error>>()?)
}

/// Returns a method as a header value; the values of common methods are static.
fn encode_method(method: &str) -> HeaderValue {
    match method {
        "tools/call" => HeaderValue::from_static("tools/call"),
        method => encode_header_value(method),
    }
}

/// Encodes text as a header value: unchanged if possible, otherwise as Base64 between `=?base64?`
/// and `?=` (MCP 2026-07-28, "Value Encoding").
pub(super) fn encode_header_value(text: &str) -> HeaderValue {
    const BASE64_PREFIX: &str = "=?base64?";
    const BASE64_SUFFIX: &str = "?=";
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let looks_encoded = text.starts_with(BASE64_PREFIX) && text.ends_with(BASE64_SUFFIX);
    let plain_value = HeaderValue::from_str(text).ok();
    match plain_value.filter(|_| is_printable && !is_padded && !looks_encoded) {
        Some(value) => value,
        None => {
            let base64 = BASE64_STANDARD.encode(text);
            let encoded_text = format!("{BASE64_PREFIX}{base64}{BASE64_SUFFIX}");
            // Base64 consists of printable ASCII characters, so the conversion cannot fail.
            HeaderValue::try_from(encoded_text).unwrap_or_else(|_| HeaderValue::from_static(""))
        }
    }
}
