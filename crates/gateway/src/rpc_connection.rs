//! The connections of workers and PHP executors: JSON-RPC 2.0 messages, one per line.

use std::io;

use futures_util::StreamExt;
use pillion_core::json_values;
use pillion_core::tool::{ErrorCode, ToolFailure};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

/// The JSON-RPC error code of an unknown method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The JSON-RPC error code of invalid parameters.
pub const INVALID_PARAMS: i32 = -32602;
/// The JSON-RPC error code of an unexpected failure.
pub const INTERNAL_ERROR: i32 = -32603;

/// Why the connection of a process ended.
#[derive(Debug)]
#[expect(missing_docs, reason = "`text` says what each variant means")]
pub enum ConnectionEnd {
    Closed,
    Stopping,
    ProcessEnded,
    NotAllowed,
    InvalidMessage(serde_json::Error),
    MessageTooLong,
    UnknownRequest,
    CallNotRead,
    IoError(io::Error),
}

impl ConnectionEnd {
    /// Returns the reason as text; `process` is the kind of process, such as `worker`.
    pub fn text(&self, process: &str) -> String {
        let reason = match self {
            Self::Closed => " closed its connection",
            Self::Stopping => return "the sidecar is stopping".to_owned(),
            Self::ProcessEnded => "'s process has ended",
            Self::NotAllowed => {
                return format!("the socket rules no longer allow the {process}'s process");
            }
            Self::InvalidMessage(error) => &format!(" sent an invalid message: {error}"),
            Self::MessageTooLong => " sent a message longer than workers.max_message_bytes",
            Self::UnknownRequest => " sent a response to an unknown call",
            Self::CallNotRead => " did not read a call before the caller stopped waiting",
            Self::IoError(error) => &format!("'s connection failed: {error}"),
        };
        format!("the {process}{reason}")
    }
}

impl From<serde_json::Error> for ConnectionEnd {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidMessage(error)
    }
}

/// Reads lines from a connection.
pub struct LineReader<S>(FramedRead<ReadHalf<S>, LinesCodec>);

/// Writes lines to a connection.
pub struct LineWriter<S>(WriteHalf<S>);

/// Splits a connection into a reader and a writer of lines. A received line has at most `max_bytes`
/// bytes.
pub fn split<S>(stream: S, max_bytes: usize) -> (LineReader<S>, LineWriter<S>)
where
    S: AsyncRead + AsyncWrite,
{
    let (reader, writer) = tokio::io::split(stream);
    let codec = LinesCodec::new_with_max_length(max_bytes);
    let lines = FramedRead::new(reader, codec);
    (LineReader(lines), LineWriter(writer))
}

impl<S: AsyncRead + AsyncWrite> LineReader<S> {
    /// Returns the next line. Cancel-safe.
    ///
    /// # Errors
    /// If the connection has ended, or the line is too long.
    pub async fn next(&mut self) -> Result<String, ConnectionEnd> {
        match self.0.next().await {
            None => Err(ConnectionEnd::Closed),
            Some(Ok(line)) => Ok(line),
            Some(Err(LinesCodecError::MaxLineLengthExceeded)) => Err(ConnectionEnd::MessageTooLong),
            Some(Err(LinesCodecError::Io(error))) => Err(ConnectionEnd::IoError(error)),
        }
    }
}

impl<S: AsyncRead + AsyncWrite> LineWriter<S> {
    /// Sends a line.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn send(&mut self, line: &str) -> Result<(), ConnectionEnd> {
        let write = async {
            self.0.write_all(line.as_bytes()).await?;
            self.0.flush().await
        };
        write.await.map_err(ConnectionEnd::IoError)
    }
}

/// A received message.
#[derive(Debug)]
pub enum RpcMessage {
    /// A request, or a notification if it has no ID.
    Call {
        /// The ID of the request; `None` for a notification.
        id: Option<Box<RawValue>>,
        /// The method of the request or notification.
        method: String,
        /// The parameters of the request or notification; `null` if there are none.
        params: Box<RawValue>,
    },
    /// The response to the request with this ID: a result or an error.
    Response(u64, Result<Box<RawValue>, Value>),
}

#[derive(Deserialize)]
struct RpcMembers {
    id: Option<Box<RawValue>>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<Value>,
}

impl RpcMessage {
    /// Parses a line as a message.
    ///
    /// # Errors
    /// If the line is not a message, or has too many JSON values.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let members: RpcMembers = json_values::from_str(line)?;
        let Some(method) = members.method else {
            let id = members.id.as_deref().unwrap_or(RawValue::NULL);
            let response = match (members.result, members.error) {
                (Some(result), None) => Ok(result),
                (_, error) => Err(error.unwrap_or_default()),
            };
            return Ok(Self::Response(serde_json::from_str(id.get())?, response));
        };
        Ok(Self::Call {
            id: members.id,
            method,
            params: members.params.unwrap_or_else(|| RawValue::NULL.to_owned()),
        })
    }
}

/// Converts the error of a response to the failure of a call. If the error has no message, the
/// failure has the message `default_message`.
pub fn parse_failure(error: &Value, default_message: &str) -> ToolFailure {
    let code = match error.get("code").and_then(Value::as_i64) {
        Some(code) if code == i64::from(INVALID_PARAMS) => ErrorCode::InvalidInput,
        _ => ErrorCode::InternalError,
    };
    let message = error.get("message").and_then(Value::as_str);
    ToolFailure::new(code, message.unwrap_or(default_message))
}

/// Returns the line of a request.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Returns the line of a notification.
pub fn notification(method: &str, params: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Returns the line of a response with an empty result.
pub fn empty_response(id: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": {}}))
}

/// Returns the line of an error response.
pub fn error_response(id: &Value, code: i32, message: &str) -> String {
    line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn line(message: &Value) -> String {
    format!("{message}\n")
}
