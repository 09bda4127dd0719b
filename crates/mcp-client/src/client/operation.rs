//! Adds a deadline to an operation, and the name of the operation to its error.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::request_sender::{RequestSender, to_raw};
use crate::callbacks::empty_object;
use crate::{McpError, McpErrorKind, MessageStyle, TransportKind};

/// Runs an operation within `timeout`, or else within the configured timeout. Adds the context of
/// the operation to its error. `name` returns the operation's name for errors.
pub(super) async fn run_in_time<T>(
    sender: &RequestSender,
    timeout: Option<Duration>,
    name: impl FnOnce() -> String,
    operation: impl Future<Output = Result<T, McpErrorKind>>,
) -> Result<T, McpError> {
    let effective_timeout = timeout.unwrap_or(sender.config.timeout);
    let outcome_in_time = pillion_deadline::timeout(effective_timeout, operation).await;
    let outcome = outcome_in_time.unwrap_or(Err(McpErrorKind::timeout(effective_timeout)));
    outcome.map_err(|mut kind| {
        // The error gets the name and the timeout of the whole operation. The timeout in `kind` may
        // be the shorter timeout of one step, such as a connection attempt.
        if let McpErrorKind::Timeout { timeout, operation } = &mut kind {
            *timeout = effective_timeout;
            *operation = Some(name().into());
        }
        error_of_operation(sender, kind)
    })
}

/// Adds the server's transport, message style and credentials to an error.
pub(super) fn error_of_operation(sender: &RequestSender, kind: McpErrorKind) -> McpError {
    let transport_style = match sender.config.transport {
        TransportKind::LegacySse | TransportKind::PostSse | TransportKind::GetSse => {
            MessageStyle::Sse
        }
        TransportKind::Auto
        | TransportKind::StreamableHttp
        | TransportKind::Http
        | TransportKind::WebSocket
        | TransportKind::Stdio => MessageStyle::Http,
    };
    let style = sender.config.message_style.unwrap_or(transport_style);
    let connections = &sender.connections;
    McpError::new(kind, style, connections.transport(), &connections.secrets)
}

/// Returns the name of a request for errors, such as `tool 'roll' of server 'dice'`.
pub(super) fn format_request_name<P: Serialize + ?Sized>(
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
    let raw_params = to_raw(&params)?;
    if matches!(raw_params.get(), "[]" | "null") {
        return Ok(empty_object());
    }
    Ok(raw_params)
}
