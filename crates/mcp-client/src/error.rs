mod class;
mod kind;
mod message_style;

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::message::RpcError;
use super::peer_text::{MAX_ERROR_TEXT_BYTES, shortened, truncate};
use super::secrets::Secrets;
use super::{AuthorizationChallenge, TransportKind};
pub use class::ErrorClass;
pub use kind::McpErrorKind;
pub use message_style::MessageStyle;

/// Why an MCP operation failed.
///
/// `Display` returns the message in the style of [`MessageStyle`], and [`kind`](Self::kind) the
/// details. Messages contain no credentials and no URL queries, and at most
/// [`MAX_ERROR_TEXT_BYTES`](crate::MAX_ERROR_TEXT_BYTES) bytes of a server's text.
#[derive(Debug)]
pub struct McpError {
    kind: McpErrorKind,
    style: MessageStyle,
    /// The server's transport, as configured or detected; `None` while the transport is unknown.
    transport: Option<TransportKind>,
    /// Whether the failed operation is a tool call that the server may have received.
    may_have_run: bool,
    /// The credentials that the message must not repeat.
    secrets: Arc<Secrets>,
}

impl McpError {
    pub(crate) fn new(
        mut kind: McpErrorKind,
        style: MessageStyle,
        transport: Option<TransportKind>,
        secrets: &Arc<Secrets>,
    ) -> Self {
        kind.redact(secrets);
        Self {
            kind,
            style,
            transport,
            may_have_run: false,
            secrets: Arc::clone(secrets),
        }
    }

    /// Sets whether the failed operation is a tool call that the server may have received.
    pub(crate) fn with_may_have_run(mut self, may_have_run: bool) -> Self {
        self.may_have_run = may_have_run;
        self
    }

    /// Returns whether the tool may have run although no valid response arrived: the failed
    /// operation is a tool call that the server may have received. Such a call is not sent again.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }

    /// Returns whether the message must add that the tool may have run. The messages of a timeout,
    /// of the end of a program, and of an invalid response already say that the call was sent.
    fn needs_may_have_run_note(&self) -> bool {
        let implies_receipt = match &self.kind {
            McpErrorKind::ProcessEnded { .. }
            | McpErrorKind::Timeout { .. }
            | McpErrorKind::Disconnected
            | McpErrorKind::ContentType { .. }
            | McpErrorKind::ContentEncoding { .. }
            | McpErrorKind::TooLarge { .. }
            | McpErrorKind::TooManyValues(_)
            | McpErrorKind::TooManyEvents { .. }
            | McpErrorKind::Sse(_)
            | McpErrorKind::InvalidUtf8
            | McpErrorKind::InvalidMessage(_) => true,
            // [`MessageStyle::Sse`] has a fixed message for a stream without a response, to which
            // nothing can be added.
            McpErrorKind::NoResponse => self.style == MessageStyle::Sse,
            _ => false,
        };
        self.may_have_run && !implies_receipt
    }

    /// Returns the transport's name in messages of [`MessageStyle::Sse`].
    fn transport_name(&self) -> &'static str {
        match self.transport.unwrap_or_default() {
            TransportKind::Auto
            | TransportKind::LegacySse
            | TransportKind::PostSse
            | TransportKind::GetSse => "SSE",
            TransportKind::StreamableHttp => "Streamable HTTP",
            TransportKind::Http => "HTTP",
            TransportKind::WebSocket => "WebSocket",
            TransportKind::Stdio => "stdio",
        }
    }

    /// Returns the kind of the error with its details.
    #[must_use]
    pub fn kind(&self) -> &McpErrorKind {
        &self.kind
    }

    /// Returns the JSON-RPC error, if the server responded with one.
    #[must_use]
    pub fn rpc_error(&self) -> Option<&RpcError> {
        match &self.kind {
            McpErrorKind::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the HTTP status, if the server responded with an error status.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        match self.kind {
            McpErrorKind::HttpStatus { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the challenge of a server that rejected the request for a missing or insufficient
    /// credential.
    #[must_use]
    pub fn challenge(&self) -> Option<AuthorizationChallenge> {
        let McpErrorKind::HttpStatus { challenge, .. } = &self.kind else {
            return None;
        };
        Some(AuthorizationChallenge::from_header(challenge.as_deref()?))
    }

    /// Returns how long to wait before a retry: the time that the server sent, or the remaining
    /// backoff.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            McpErrorKind::HttpStatus { retry_after, .. } => retry_after,
            McpErrorKind::KnownDown { retry_after, .. } => Some(retry_after),
            _ => None,
        }
    }

    /// Returns whether the operation timed out.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind, McpErrorKind::Timeout { .. })
    }

    /// Returns the class of the error, which tells callers whether a retry can help.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match &self.kind {
            McpErrorKind::Config(_) | McpErrorKind::UnserializableParams(_) => {
                ErrorClass::InvalidInput
            }
            McpErrorKind::Egress(_) | McpErrorKind::InputRequired { .. } => ErrorClass::Denied,
            McpErrorKind::Timeout { .. } => ErrorClass::Timeout,
            McpErrorKind::Authorization(error) => error.class(),
            McpErrorKind::Rpc(error) => match error.code {
                -32602 if is_unknown_tool_message(&error.message) => ErrorClass::NotFound,
                -32600 | -32602 => ErrorClass::InvalidInput,
                -32601 | -32002 => ErrorClass::NotFound,
                _ => ErrorClass::Internal,
            },
            McpErrorKind::HttpStatus { status, .. } => match status {
                401 | 403 => ErrorClass::Denied,
                429 => ErrorClass::RateLimited,
                _ => ErrorClass::Unavailable,
            },
            McpErrorKind::Setup(_)
            | McpErrorKind::ConnectionFailed(_)
            | McpErrorKind::ConnectionBroken(_)
            | McpErrorKind::Redirect
            | McpErrorKind::ForeignEndpoint
            | McpErrorKind::StreamClosed
            | McpErrorKind::ResponseLost(_)
            | McpErrorKind::Spawn { .. }
            | McpErrorKind::ProcessEnded { .. }
            | McpErrorKind::NotWebSocket
            | McpErrorKind::Echo
            | McpErrorKind::SessionExpired
            | McpErrorKind::NoCommonVersion { .. }
            | McpErrorKind::KnownDown { .. }
            | McpErrorKind::Disconnected => ErrorClass::Unavailable,
            McpErrorKind::TaskCancelled { .. } => ErrorClass::Cancelled,
            McpErrorKind::ContentType { .. }
            | McpErrorKind::ContentEncoding { .. }
            | McpErrorKind::TooLarge { .. }
            | McpErrorKind::TooManyValues(_)
            | McpErrorKind::TooManyEvents { .. }
            | McpErrorKind::TooManyPages { .. }
            | McpErrorKind::ListTooLarge { .. }
            | McpErrorKind::Sse(_)
            | McpErrorKind::InvalidUtf8
            | McpErrorKind::InvalidMessage(_)
            | McpErrorKind::UnexpectedResult { .. }
            | McpErrorKind::TooManyRounds { .. }
            | McpErrorKind::TooManyInputRequests { .. }
            | McpErrorKind::UnknownResultType { .. }
            | McpErrorKind::NoResponse => ErrorClass::Internal,
        }
    }
}

/// Returns whether an invalid-params error means an unknown tool: `Unknown tool: X` in the
/// specification, `Tool X not found` in the official TypeScript SDK.
fn is_unknown_tool_message(message: &str) -> bool {
    let lowercase_message = message.to_ascii_lowercase();
    let is_typescript_message = lowercase_message
        .split_once("tool ")
        .is_some_and(|(_, rest)| rest.ends_with(" not found"));
    lowercase_message.contains("unknown tool") || is_typescript_message
}

/// Displays an error without the length limit for texts of the server.
struct UnlimitedMessage<'a>(&'a McpError);

impl fmt::Display for UnlimitedMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        match (&error.kind, error.style) {
            (McpErrorKind::Rpc(rpc_error), MessageStyle::Sse) => {
                write!(f, "MCP Error ({}): {}", rpc_error.code, rpc_error.message)
            }
            (McpErrorKind::Rpc(rpc_error), MessageStyle::Http) => fmt::Display::fmt(rpc_error, f),
            (McpErrorKind::HttpStatus { status, .. }, MessageStyle::Sse) => {
                let transport = error.transport_name();
                write!(f, "MCP {transport} request failed with HTTP {status}")
            }
            (McpErrorKind::HttpStatus { status, .. }, MessageStyle::Http) => {
                let code = http::StatusCode::from_u16(*status).ok();
                let reason = code.and_then(|code| code.canonical_reason());
                write!(f, "HTTP {status}: {}", reason.unwrap_or("Unknown"))
            }
            (McpErrorKind::NoResponse, MessageStyle::Sse) if error.transport_name() == "SSE" => {
                f.write_str("No valid JSON-RPC response found in SSE stream")
            }
            (McpErrorKind::Disconnected | McpErrorKind::Config(_), _) => {
                fmt::Display::fmt(&error.kind, f)
            }
            (kind, MessageStyle::Sse) => {
                write!(f, "MCP {} request failed: {kind}", error.transport_name())
            }
            (kind, MessageStyle::Http) => write!(f, "MCP request failed: {kind}"),
        }
    }
}

/// Writes the message without credentials, shortened to [`MAX_ERROR_TEXT_BYTES`].
impl fmt::Display for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = LimitedText(String::new());
        let outcome = write!(text, "{}", UnlimitedMessage(self));
        if text.0.len() <= MAX_ERROR_TEXT_BYTES {
            outcome?;
        }
        let short_text = shortened(&text.0, MAX_ERROR_TEXT_BYTES);
        f.write_str(&self.secrets.redacted(&short_text))?;
        if self.needs_may_have_run_note() {
            f.write_str("; the tool may have run")?;
        }
        Ok(())
    }
}

/// A text buffer that rejects everything beyond [`MAX_ERROR_TEXT_BYTES`], except for one more
/// character, which shows that the text is too long.
struct LimitedText(String);

impl Write for LimitedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        const MAX_CHAR_BYTES: usize = 4;
        let remaining_bytes = (MAX_ERROR_TEXT_BYTES + MAX_CHAR_BYTES).saturating_sub(self.0.len());
        self.0.push_str(truncate(piece, remaining_bytes));
        if self.0.len() <= MAX_ERROR_TEXT_BYTES {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

impl std::error::Error for McpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.kind)
    }
}
