//! The deadline of an operation, and its name in errors.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::request_sender::RequestSender;
use super::rounds::raw;
use crate::callbacks::empty_object;
use crate::{McpError, McpErrorKind, MessageStyle, TransportKind};

/// Runs an operation within its timeout, by default the configured one, and adds the context of the
/// operation to its error. `name` returns the operation's name for errors.
pub(super) async fn in_time<T>(
    sender: &RequestSender,
    timeout: Option<Duration>,
    name: impl FnOnce() -> String,
    operation: impl Future<Output = Result<T, McpErrorKind>>,
) -> Result<T, McpError> {
    let after = timeout.unwrap_or(sender.config.timeout);
    let timed = pillion_deadline::timeout(after, operation).await;
    let outcome = timed.unwrap_or(Err(McpErrorKind::timeout(after)));
    outcome.map_err(|kind| match kind {
        // A step of the operation, such as a connection attempt, has a shorter timeout than the
        // operation.
        McpErrorKind::Timeout { .. } => {
            let operation = Some(name().into());
            error(sender, McpErrorKind::Timeout { after, operation })
        }
        kind => error(sender, kind),
    })
}

/// Adds the server's transport, message style and credentials to an error.
pub(super) fn error(sender: &RequestSender, kind: McpErrorKind) -> McpError {
    let by_transport = match sender.config.transport {
        TransportKind::LegacySse | TransportKind::PostSse | TransportKind::GetSse => {
            MessageStyle::Sse
        }
        TransportKind::Auto
        | TransportKind::StreamableHttp
        | TransportKind::Http
        | TransportKind::WebSocket
        | TransportKind::Stdio => MessageStyle::Http,
    };
    let style = sender.config.message_style.unwrap_or(by_transport);
    let connections = &sender.connections;
    McpError::new(kind, style, connections.transport(), &connections.secrets)
}

/// Returns the name of a request for errors: `tool 'roll' of server 'dice'`.
pub(super) fn request_name<P: Serialize + ?Sized>(
    sender: &RequestSender,
    method: &str,
    params: &P,
) -> String {
    const MAX_NAME_CHARS: usize = 128;
    let server = &sender.config.label;
    let params = match method {
        "tools/call" => serde_json::to_value(params).unwrap_or_default(),
        _ => Value::Null,
    };
    match params.get("name").and_then(Value::as_str) {
        Some(tool) => {
            let tool: String = tool.chars().take(MAX_NAME_CHARS).collect();
            format!("tool '{tool}' of server '{server}'")
        }
        None => format!("'{method}' of server '{server}'"),
    }
}

/// Returns parameters or arguments as JSON. They must be an object: `[]` (PHP's empty array) and
/// `null` become `{}`.
pub(super) fn as_object<P: Serialize + ?Sized>(params: &P) -> Result<Box<RawValue>, McpErrorKind> {
    let written = raw(&params)?;
    if matches!(written.get(), "[]" | "null") {
        return Ok(empty_object());
    }
    Ok(written)
}
