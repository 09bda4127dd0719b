//! JSON-RPC 2.0 messages. Parts that the client does not interpret stay raw JSON.

mod line;
mod message_id;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use pillion_schema::{json_values, lone_surrogates};
use serde::de::{SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use line::MessageLine;
pub(crate) use message_id::MessageId;

use crate::peer_text::{MAX_ERROR_TEXT_BYTES, shorten};
use crate::secrets::Secrets;

/// The id of a request. The client uses numbers from 1, or strings that start with `mcp_`. Servers
/// that return a number as its text (`"3"`) or with a fraction (`3.0`) mean the number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub(crate) enum RpcRequestId {
    Number(i64),
    Text(String),
}

/// The error of a JSON-RPC response.
#[derive(Debug, Clone, Serialize)]
pub struct RpcError {
    /// The error code; -1 if the server sent none.
    pub code: i64,
    /// The error message, [shortened](crate::MAX_ERROR_TEXT_BYTES); `Unknown MCP error` if the
    /// server sent none.
    pub message: String,
    /// Additional data of the server, not interpreted.
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
            // The data becomes invalid JSON only if a credential is a part of its syntax.
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
        strict_error(error).filter(|_| jsonrpc == "2.0")
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
pub(crate) enum Incoming {
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
struct RawResponse<'a> {
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

impl Incoming {
    /// Parses one message, or a batch, which revision 2025-03-26 requires clients to accept. Skips
    /// values in a batch that are not JSON-RPC messages.
    ///
    /// # Errors
    /// `text` is not JSON, is a single value that is not a JSON-RPC message, or is a batch of more
    /// than 10,000 values, which would take many times the memory of the text.
    pub(crate) fn parse(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        if !text.trim_start().starts_with('[') {
            return Self::parse_one(text).map(|message| vec![message]);
        }
        let mut batch = serde_json::Deserializer::from_str(text);
        let messages = batch.deserialize_seq(BatchVisitor)?;
        batch.end()?;
        Ok(messages)
    }

    fn parse_one(text: &str) -> Result<Self, serde_json::Error> {
        Self::parse_with_version(text).map(|(message, _)| message)
    }

    /// Parses one message. The returned flag is `true` if the message has `"jsonrpc": "2.0"`.
    fn parse_with_version(text: &str) -> Result<(Self, bool), serde_json::Error> {
        let text = lone_surrogates::replace(text);
        let envelope: RawResponse<'_> = serde_json::from_str(&text)?;
        let version = envelope.jsonrpc.map(RawValue::get);
        let message = Self::from_envelope(envelope)?;
        Ok((message, version == Some("\"2.0\"")))
    }

    fn from_envelope(envelope: RawResponse<'_>) -> Result<Self, serde_json::Error> {
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
                    (Some(error), _) => Err(lenient_error(error)),
                    (None, Some(result)) => Ok(result.to_owned()),
                    (None, None) => {
                        return Err(Error::custom("a response with neither result nor error"));
                    }
                };
                let id = RpcRequestId::read(id)?;
                Ok(Self::Response { id, outcome })
            }
            (None, None) => match envelope.error {
                // An error without an id: the server could not read the id of the open request.
                Some(error) => Ok(Self::Response {
                    id: RpcRequestId::Text(String::new()),
                    outcome: Err(lenient_error(error)),
                }),
                // A result without an id is not the response: servers send such results beside the
                // response.
                None => Err(Error::custom("neither a request nor a response")),
            },
        }
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Vec<Incoming>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        const MAX_BATCH_MESSAGES: usize = 10_000;
        let mut messages = Vec::new();
        let mut seen = 0;
        while let Some(value) = values.next_element::<&RawValue>()? {
            seen += 1;
            if seen > MAX_BATCH_MESSAGES {
                return Err(serde::de::Error::custom("too many messages in a batch"));
            }
            messages.extend(Incoming::parse_one(value.get()));
        }
        Ok(messages)
    }
}

impl RpcRequestId {
    /// Parses a number directly, because most ids are numbers and serde would first determine the
    /// type.
    fn read(raw: &RawValue) -> Result<Self, serde_json::Error> {
        match raw.get().parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => serde_json::from_str(raw.get()),
        }
    }

    /// Returns whether a response with this id belongs to the request with the id `request`. A
    /// server that could not parse a request responds with the id null.
    pub(crate) fn matches(&self, request: &Self) -> bool {
        self == request || matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl<'de> Deserialize<'de> for RpcRequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RpcRequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a whole number or a string")
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<RpcRequestId, E> {
        Ok(RpcRequestId::Number(id))
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<RpcRequestId, E> {
        let number = i64::try_from(id).map(RpcRequestId::Number);
        number.map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, id: f64) -> Result<RpcRequestId, E> {
        // An id such as `3.0` is a whole number, written without its fraction.
        let number = id.to_string().parse().map(RpcRequestId::Number);
        number.map_err(|_| E::invalid_value(Unexpected::Float(id), &self))
    }

    fn visit_str<E: serde::de::Error>(self, id: &str) -> Result<RpcRequestId, E> {
        let number = id.parse().map(RpcRequestId::Number);
        Ok(number.unwrap_or_else(|_| RpcRequestId::Text(id.to_owned())))
    }
}

impl<'de> Deserialize<'de> for RpcError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| lenient_error(&raw))
    }
}

/// Parses an error object as JSON-RPC 2.0 defines it.
fn strict_error(raw: &RawValue) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct ErrorObject {
        code: i64,
        message: String,
        data: Option<Box<RawValue>>,
    }
    let error: ErrorObject = serde_json::from_str(raw.get()).ok()?;
    Some(RpcError {
        data: error.data,
        ..RpcError::new(error.code, error.message)
    })
}

/// Parses an error object, even a malformed one: servers send a text in place of the error or the
/// code, or a message without a code.
fn lenient_error(raw: &RawValue) -> RpcError {
    const UNKNOWN_CODE: i64 = -1;
    if let Err(error) = json_values::check(raw.get().as_bytes()) {
        return RpcError::new(UNKNOWN_CODE, format!("the server's error has {error}"));
    }
    if let Some(error) = strict_error(raw) {
        return error;
    }
    let mut error = serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    if let Some(first) = error.get_mut(0) {
        error = first.take();
    }
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(values) if values.is_empty() => None,
        Value::Object(members) if members.is_empty() => None,
        other => Some(other.to_string()),
    };
    let code = match &error["code"] {
        Value::String(code) => code.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        code => code.as_i64().or_else(|| {
            let code = code.as_f64().filter(|code| code.abs() < 1e15)?;
            Some(code as i64)
        }),
    };
    let message = ["message", "data"]
        .iter()
        .find_map(|key| text(&error[key]))
        .or_else(|| text(&error).filter(|_| error.get("code").is_none()));
    RpcError {
        data: Some(raw.to_owned()),
        ..RpcError::new(
            code.unwrap_or(UNKNOWN_CODE),
            message.unwrap_or_else(|| "Unknown MCP error".to_owned()),
        )
    }
}

/// Serializes a request.
pub(crate) fn request(
    id: &RpcRequestId,
    method: &str,
    params: &(impl Serialize + ?Sized),
) -> Bytes {
    // The members around `params` are written literally, because serializing their names would take
    // longer than everything else.
    let written = || -> Result<Vec<u8>, serde_json::Error> {
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
    written().map_or_else(|_| Bytes::new(), Bytes::from)
}

/// Serializes a `ping` with an id that no other request has.
pub(crate) fn ping() -> (RpcRequestId, Bytes) {
    let id = RpcRequestId::Text(format!("mcp_{}", uuid::Uuid::new_v4().simple()));
    let message = request(&id, "ping", &serde_json::Map::new());
    (id, message)
}

/// Serializes a notification.
pub(crate) fn notification<P: Serialize + ?Sized>(method: &str, params: Option<&P>) -> Bytes {
    #[derive(Serialize)]
    struct Notification<'a, P: ?Sized> {
        jsonrpc: &'static str,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a P>,
    }
    encode(&Notification {
        jsonrpc: "2.0",
        method,
        params,
    })
}

/// Serializes the response to a server's request.
pub(crate) fn response(id: &RawValue, outcome: Result<Value, RpcError>) -> Bytes {
    #[derive(Serialize)]
    struct Response<'a> {
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
    encode(&Response {
        jsonrpc: "2.0",
        id,
        payload: match outcome {
            Ok(result) => Payload::Result(result),
            Err(error) => Payload::Error(error),
        },
    })
}

/// Serializes a message. Maps of strings and raw JSON always serialize; otherwise the message is
/// empty, which a server rejects.
fn encode(message: &impl Serialize) -> Bytes {
    let mut bytes = Vec::with_capacity(512);
    match serde_json::to_writer(&mut bytes, message) {
        Ok(()) => bytes.into(),
        Err(_) => Bytes::new(),
    }
}
