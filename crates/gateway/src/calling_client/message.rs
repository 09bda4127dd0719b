//! JSON-RPC 2.0 messages from and to clients. Members that the sidecar does not use stay unchanged.

use axum::body::Bytes;
use indexmap::IndexMap;
use pillion_core::{is_lone_surrogate, json_error_text, json_values};
use pillion_mcp_client::{MAX_IDENTIFIER_BYTES, McpLogLevel, RpcError};
use pillion_wire::MAX_ID_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::objects;
use crate::accounts::json_memory;
use crate::client_text::truncate_input;

/// The error code for a message that is not JSON (JSON-RPC 2.0, section 5.1).
pub const PARSE_ERROR: i64 = -32700;
/// The error code for a message that is not a valid request (JSON-RPC 2.0, section 5.1).
pub const INVALID_REQUEST: i64 = -32600;
/// The error code for a method that does not exist (JSON-RPC 2.0, section 5.1).
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The error code for invalid parameters (JSON-RPC 2.0, section 5.1).
pub const INVALID_PARAMS: i64 = -32602;
/// The error code for a header that differs from the message's body (MCP 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The error code for an internal failure of the sidecar (JSON-RPC 2.0, section 5.1).
pub const INTERNAL_ERROR: i64 = -32603;

/// The key of the protocol revision in `_meta` (MCP 2026-07-28).
pub const PROTOCOL_VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the log level in `_meta` (MCP 2026-07-28).
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// The key of the subscription's ID in `_meta` (MCP 2026-07-28).
pub const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The members of an object in their order, each as the client or server wrote it.
pub type Members = IndexMap<String, Box<RawValue>>;

/// A message from a client.
#[derive(Debug)]
pub enum Inbound {
    /// A message with a method and an ID, which expects a response.
    Request(Request),
    /// A message with a method and without an ID.
    Notification {
        /// The method of the notification.
        method: String,
        /// The members of `params`; empty if there are none.
        params: Members,
    },
    /// The response to a request of the sidecar.
    Response {
        /// The ID of the request.
        id: Box<RawValue>,
        /// The member `result` or `error` of the JSON-RPC response.
        outcome: Result<Value, RpcError>,
    },
}

/// A request of a client.
#[derive(Debug)]
pub struct Request {
    /// The request's ID, as the client wrote it.
    pub id: Box<RawValue>,
    /// The method of the request.
    pub method: String,
    /// The members of `params`; empty if there are none.
    pub params: Members,
}

impl Request {
    /// Returns a string parameter, such as a URI or the name of a tool, of at most
    /// [`MAX_IDENTIFIER_BYTES`] bytes.
    pub fn text(&self, key: &str) -> Result<String, RpcError> {
        let type_error = || invalid_params(format!("'{key}' must be a string"));
        let raw_text = self.params.get(key).ok_or_else(type_error)?;
        let text: String = serde_json::from_str(raw_text.get()).map_err(|error| {
            if is_lone_surrogate(&error) {
                invalid_param_error(key, &error)
            } else {
                type_error()
            }
        })?;
        check_identifier(key, &text)?;
        Ok(text)
    }

    /// Returns the approximate memory of the running request, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let members = self
            .params
            .iter()
            .map(|(name, value)| json_memory(name) + json_memory(value.get()));
        json_memory(self.id.get()) + json_memory(&self.method) + members.sum::<u64>()
    }

    /// Returns the members of `_meta`; empty if `_meta` is missing or not an object.
    pub fn meta(&self) -> Members {
        let meta = self.params.get("_meta");
        meta.and_then(|meta| serde_json::from_str(meta.get()).ok())
            .unwrap_or_default()
    }
}

/// An invalid message, and the error for its sender.
#[derive(Debug)]
pub struct UnreadableMessage {
    /// The request's ID, if it could be read.
    pub id: Option<Box<RawValue>>,
    /// The error for the client.
    pub error: RpcError,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<Value>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct IdMember<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

impl Inbound {
    /// Parses one message. Where MCP requires an object, `[]` counts as `{}`, and `null` counts as
    /// a missing value.
    pub fn parse(text: &str) -> Result<Self, UnreadableMessage> {
        let to_unreadable = |id: Option<&RawValue>, code, message: String| UnreadableMessage {
            id: id.filter(|id| is_valid_id(id)).map(ToOwned::to_owned),
            error: RpcError::new(code, message),
        };
        if let Err(error) = json_values::check(text.as_bytes()) {
            let id_member: Option<IdMember<'_>> = serde_json::from_str(text).ok();
            let id = id_member.and_then(|member| member.id);
            let message = format!("Invalid request: {error}");
            return Err(to_unreadable(id, INVALID_REQUEST, message));
        }
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
            if error.is_data() {
                let message = "Invalid request: expected a JSON object with each member once";
                return to_unreadable(None, INVALID_REQUEST, message.to_owned());
            }
            let message = format!("Parse error: {}", json_error_text(&error));
            to_unreadable(None, PARSE_ERROR, message)
        })?;
        let id = envelope.id;
        let to_invalid_request = |problem: &str| {
            let message = format!("Invalid request: {problem}");
            to_unreadable(id, INVALID_REQUEST, message)
        };
        if envelope.jsonrpc != "2.0" {
            return Err(to_invalid_request("'jsonrpc' must be \"2.0\""));
        }
        if id.is_some_and(|id| !is_valid_id(id)) {
            let id_problem =
                format!("'id' must be a string or an integer of at most {MAX_ID_BYTES} bytes");
            return Err(to_invalid_request(&id_problem));
        }
        let method = match envelope.method {
            Some(Value::String(method)) => Some(method),
            Some(_) => return Err(to_invalid_request("'method' must be a string")),
            None => None,
        };
        let params = || match envelope.params {
            None => Ok(Members::new()),
            Some(params) => objects::read_params(params).ok_or_else(|| {
                to_unreadable(id, INVALID_PARAMS, "'params' must be an object".to_owned())
            }),
        };
        match (method, id) {
            (Some(method), Some(id)) => Ok(Self::Request(Request {
                id: id.to_owned(),
                method,
                params: params()?,
            })),
            (Some(method), None) => Ok(Self::Notification {
                method,
                params: params()?,
            }),
            (None, Some(id)) => {
                let outcome = match (envelope.error, envelope.result) {
                    (Some(error), _) => Err(serde_json::from_value(error).unwrap_or_else(|_| {
                        RpcError::new(INTERNAL_ERROR, "The client sent an invalid error response")
                    })),
                    (None, Some(result)) => Ok(objects::read_result(result)
                        .map_err(|error| to_invalid_request(&json_error_text(&error)))?),
                    (None, None) => {
                        return Err(to_invalid_request(
                            "'method', 'result' and 'error' are missing",
                        ));
                    }
                };
                let id = id.to_owned();
                Ok(Self::Response { id, outcome })
            }
            (None, None) => Err(to_invalid_request("'method' and 'id' are missing")),
        }
    }
}

/// Returns whether an ID is a string or an integer, as MCP requires, and not too long.
fn is_valid_id(id: &RawValue) -> bool {
    let text = id.get();
    // The text of a string includes the quotation marks.
    text.len() <= MAX_ID_BYTES + 2 && (text.starts_with('"') || text.parse::<i128>().is_ok())
}

/// Reads a log level of MCP's `logging/setLevel`.
pub fn parse_log_level(level: &RawValue) -> Result<McpLogLevel, RpcError> {
    serde_json::from_str(level.get()).map_err(|_| {
        invalid_params(format!(
            "Invalid log level {}: expected debug, info, notice, warning, error, critical, alert \
             or emergency",
            truncate_input(level.get())
        ))
    })
}

/// Returns the error for a request whose ID is in use by a running request of the same connection:
/// the client could not tell the two responses apart.
pub fn used_id_error() -> RpcError {
    let reason = "The id of the request is already used by a running request: use another id";
    RpcError::new(INVALID_REQUEST, reason)
}

/// Creates an error with the code [`INVALID_PARAMS`].
pub fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS, message)
}

/// Returns the error for a parameter whose JSON is invalid. The JSON of a parameter is parsed only
/// when the parameter is used.
pub fn invalid_param_error(key: &str, error: &serde_json::Error) -> RpcError {
    invalid_params(format!("'{key}': {}", json_error_text(error)))
}

/// Checks the length of a parameter that identifies an item, such as the name of a tool or a URI.
///
/// # Errors
/// The text is longer than [`MAX_IDENTIFIER_BYTES`].
pub fn check_identifier(key: &str, text: &str) -> Result<(), RpcError> {
    if text.len() > MAX_IDENTIFIER_BYTES {
        return Err(invalid_params(format!(
            "'{key}' is longer than {MAX_IDENTIFIER_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Returns the error for an unknown item, such as a tool; `kind` is the kind of item.
pub fn unknown_item_error(kind: &str, name: &str) -> RpcError {
    invalid_params(format!("Unknown {kind}: {}", truncate_input(name)))
}

/// Returns the error for a header that differs from the message's body.
pub fn header_mismatch(header: &str) -> RpcError {
    let reason = format!("The header {header} does not match the message");
    RpcError::new(HEADER_MISMATCH, reason)
}

/// Creates an error with this code, message and member `data`.
pub fn error_with_data(code: i64, message: impl Into<String>, data: &Value) -> RpcError {
    let mut error = RpcError::new(code, message);
    error.data = to_raw_value(data).ok();
    error
}

/// Serializes a result that the sidecar has created itself.
pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(value).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
}

/// Returns a result with the list `entries` as the member `key`. The entries stay unchanged.
pub fn raw_list(key: &'static str, entries: &[impl Serialize]) -> Result<Box<RawValue>, RpcError> {
    raw(&IndexMap::from([(key, entries)]))
}

/// Returns the response to a request; `id` is `None` if the request's ID could not be read.
pub fn response(id: Option<&RawValue>, outcome: &Result<Box<RawValue>, RpcError>) -> Bytes {
    let id = id.unwrap_or(RawValue::NULL);
    match outcome {
        Ok(result) => {
            // The result is copied without serializing: it is already JSON, and may be large.
            let mut bytes = Vec::with_capacity(result.get().len() + id.get().len() + 40);
            bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            bytes.extend_from_slice(id.get().as_bytes());
            bytes.extend_from_slice(br#","result":"#);
            bytes.extend_from_slice(result.get().as_bytes());
            bytes.push(b'}');
            bytes.into()
        }
        Err(error) => encode(&ErrorResponse {
            jsonrpc: "2.0",
            id,
            error,
        }),
    }
}

#[derive(Serialize)]
struct ErrorResponse<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    error: &'a RpcError,
}

/// Returns a notification, or a request if `id` is set.
pub fn outgoing(id: Option<&str>, method: &str, params: &impl Serialize) -> Bytes {
    #[derive(Serialize)]
    struct Outgoing<'a, P> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        method: &'a str,
        params: &'a P,
    }
    encode(&Outgoing {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// Serializes a message. Messages contain only string keys and valid JSON, so this never fails.
fn encode(message: &impl Serialize) -> Bytes {
    serde_json::to_vec(message).map_or_else(|_| Bytes::new(), Bytes::from)
}

/// Adds members at the front of the object `result`, except members that `result` already has. The
/// rest of the JSON text stays unchanged byte for byte.
pub fn with_members(result: Box<RawValue>, members: &[(&str, &str)]) -> Box<RawValue> {
    let text = result.get();
    let Ok(existing) = serde_json::from_str::<IndexMap<std::borrow::Cow<'_, str>, &RawValue>>(text)
    else {
        return result; // Members can only be added to an object.
    };
    let mut output = String::new();
    for (name, value) in members {
        if !existing.contains_key(*name) {
            output.push(if output.is_empty() { '{' } else { ',' });
            output.push_str(&format!("\"{name}\":{value}"));
        }
    }
    if output.is_empty() {
        return result;
    }
    let rest = text.trim_start().strip_prefix('{').unwrap_or_default();
    if !existing.is_empty() {
        output.push(',');
    }
    output.push_str(rest);
    RawValue::from_string(output).unwrap_or(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_of(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn invalid_messages_are_rejected_with_reason_and_id() {
        let request = |members: &str| format!(r#"{{"jsonrpc":"2.0",{members}}}"#);
        let long_id = format!(r#""id":"{}","method":"ping""#, "x".repeat(257));
        for (text, code, id) in [
            ("{".to_owned(), PARSE_ERROR, None),
            ("7".to_owned(), INVALID_REQUEST, None),
            (
                r#"{"id":1,"method":"ping"}"#.to_owned(),
                INVALID_REQUEST,
                Some("1"),
            ),
            (request(r#""id":null,"method":"ping""#), 0, None),
            (request(r#""id":[],"method":"ping""#), INVALID_REQUEST, None),
            (
                request(r#""id":1.5,"method":"ping""#),
                INVALID_REQUEST,
                None,
            ),
            (request(&long_id), INVALID_REQUEST, None),
            (request(r#""id":"a""#), INVALID_REQUEST, Some("\"a\"")),
            (request(r#""id":3,"method":4"#), INVALID_REQUEST, Some("3")),
            (
                request(r#""id":3,"method":"x","params":[1]"#),
                INVALID_PARAMS,
                Some("3"),
            ),
        ] {
            match Inbound::parse(&text) {
                Err(unreadable) => {
                    assert_eq!(unreadable.error.code, code, "{text}");
                    assert_eq!(unreadable.id.as_deref().map(RawValue::get), id, "{text}");
                }
                // Serde reads an ID of null as a missing ID, so the message is a notification.
                Ok(Inbound::Notification { .. }) => assert_eq!(code, 0, "{text}"),
                Ok(message) => panic!("{text}: {message:?}"),
            }
        }
    }

    #[test]
    fn an_empty_list_is_an_object_in_every_kind_of_message() {
        for params in ["[]", "[ ]", "null", "{}"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#);
            let Ok(Inbound::Request(request)) = Inbound::parse(&text) else {
                panic!("{text}");
            };
            assert!(request.params.is_empty());
            let text = text.replace(r#""id":1,"#, "");
            let parsed = Inbound::parse(&text);
            assert!(matches!(parsed, Ok(Inbound::Notification { .. })), "{text}");
        }
        for (result, expected) in [
            ("[]", serde_json::json!({})),
            (
                r#"{"action":"accept","content":[],"_meta":null}"#,
                serde_json::json!({"action": "accept", "content": {}}),
            ),
            (
                r#"{"role":"assistant","content":[]}"#,
                serde_json::json!({"role": "assistant", "content": []}),
            ),
            ("7", serde_json::json!(7)),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            let Ok(Inbound::Response { outcome, .. }) = Inbound::parse(&text) else {
                panic!("{text}");
            };
            assert_eq!(outcome.unwrap(), expected);
        }
    }

    #[test]
    fn e10_members_are_added_and_the_rest_is_unchanged() {
        let with = |text: &str| {
            let members = [("resultType", "\"complete\""), ("ttlMs", "0")];
            with_members(raw_of(text), &members).get().to_owned()
        };
        assert_eq!(with("{}"), r#"{"resultType":"complete","ttlMs":0}"#);
        let expected = r#"{"resultType":"complete", "n": 1.50, "ttlMs":7}"#;
        assert_eq!(with(r#"{ "n": 1.50, "ttlMs":7}"#), expected);
        let whole = r#"{"ttlMs":1,"resultType":"task"}"#;
        assert_eq!(with(whole), whole);
        assert_eq!(with("[1]"), "[1]");
    }
}
