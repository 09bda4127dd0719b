use std::borrow::Cow;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crate::message::RpcError;
use crate::secrets::Secrets;
use crate::{OAuthError, ServerConfigError};
use pillion_egress::{ClientError, EgressError, KnownDown, root_cause};
use pillion_schema::json_values::TooManyValues;
use pillion_sse::SseError;

/// Why an MCP operation failed, with the details.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpErrorKind {
    /// The configuration of the server is invalid.
    #[error(transparent)]
    Config(#[from] ServerConfigError),
    /// The HTTP client cannot be set up, for example because there are no trusted certificates.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(#[from] ClientError),
    /// The egress policy does not allow requests to the server's URL, or to any address of its
    /// host.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The parameters cannot be serialized as JSON.
    #[error("the parameters cannot be encoded as JSON: {0}")]
    UnserializableParams(#[source] serde_json::Error),
    /// No connection was established: refused, unknown host, or TLS error.
    #[error("{}{}", root_cause(.0), format_origin_suffix(.0))]
    ConnectionFailed(#[source] reqwest::Error),
    /// The connection broke, or the response is not valid HTTP.
    #[error("the connection was lost: {}", root_cause(&**.0))]
    ConnectionBroken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The HTTP status is not 2xx.
    #[error("HTTP {status}")]
    HttpStatus {
        /// The code of the HTTP status.
        status: u16,
        /// The time in `Retry-After`, if the header is in seconds.
        retry_after: Option<Duration>,
        /// The value of the header `WWW-Authenticate`.
        challenge: Option<String>,
        /// The JSON-RPC error in the body, if the body has one.
        rpc_error: Option<Box<RpcError>>,
    },
    /// No token could be obtained for the server.
    #[error("{0}")]
    Authorization(#[source] Arc<OAuthError>),
    /// The server redirects to another origin, or in a loop; the redirect is not followed.
    #[error(
        "the server redirects to another origin or too many times: Pillion does not follow the \
        redirect"
    )]
    Redirect,
    /// The URL in the `endpoint` event of an HTTP+SSE server is invalid, or has another origin than
    /// the event stream.
    #[error("the server announced an SSE endpoint that is invalid or has another origin")]
    ForeignEndpoint,
    /// The response is neither JSON nor an event stream.
    #[error("unexpected content type '{content_type}'")]
    ContentType {
        /// The beginning of the `Content-Type` header.
        content_type: String,
    },
    /// The response is compressed, which no request of Pillion allows.
    #[error("the response has the content encoding '{encoding}', which Pillion does not support")]
    ContentEncoding {
        /// The beginning of the `Content-Encoding` header.
        encoding: String,
    },
    /// The response, or the message that contains the response, is larger than the maximum size in
    /// [`Limits`](crate::Limits).
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The maximum size that was exceeded, in bytes.
        limit: usize,
    },
    /// The response has more values than [`MAX_VALUES`](pillion_schema::json_values::MAX_VALUES).
    #[error("the response has {0}")]
    TooManyValues(#[from] TooManyValues),
    /// The event stream had too many events before the response.
    #[error("no response within the first {limit} events of the stream")]
    TooManyEvents {
        /// The maximum number of events of a stream before the response.
        limit: usize,
    },
    /// The event stream is invalid.
    #[error(transparent)]
    Sse(#[from] SseError),
    /// The body of the response is not valid UTF-8.
    #[error("the response is not valid UTF-8")]
    InvalidUtf8,
    /// The body of the response is not a JSON-RPC message.
    #[error("the response is not a JSON-RPC message: {0}")]
    InvalidMessage(#[source] serde_json::Error),
    /// The result does not have the form that its method requires.
    #[error("the result of '{method}' has an unexpected form: {source}")]
    UnexpectedResult {
        /// The method of the request.
        method: &'static str,
        /// The error of parsing the result.
        #[source]
        source: serde_json::Error,
    },
    /// The HTTP response ended without a JSON-RPC response to the request.
    #[error("No valid JSON-RPC response found")]
    NoResponse,
    /// The connection that carries the responses has ended.
    #[error("the server closed the connection")]
    StreamClosed,
    /// The server accepted the request, but the stream of its response broke and cannot be resumed.
    /// The inner error is the reason why the stream broke, and not an error response to the
    /// request.
    #[error("the server accepted the request, but its response was lost: {0}")]
    ResponseLost(#[source] Box<McpErrorKind>),
    /// The program of the server cannot be started.
    #[error("'{program}' cannot be started: {source}")]
    Spawn {
        /// The configured program, without arguments.
        program: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The process of the server ended during an operation.
    #[error("{}", format_process_end(.status, .last_stderr_line))]
    ProcessEnded {
        /// The exit status of the process, if known.
        status: Option<ExitStatus>,
        /// The last line that the process wrote to its standard error, or empty. Contains no values
        /// of the configured environment.
        last_stderr_line: String,
    },
    /// The server rejected the WebSocket handshake.
    #[error(
        "the server does not accept WebSocket connections with the subprotocol 'mcp' at this URL"
    )]
    NotWebSocket,
    /// The program echoes all input, as `cat` does, and is not an MCP server.
    #[error("the server echoes its input: it is not an MCP server, or a terminal is in between")]
    Echo,
    /// The server no longer knows the session of the request.
    #[error("the session has expired")]
    SessionExpired,
    /// A list has more pages than [`Limits::max_pages`](crate::Limits::max_pages).
    #[error("the list has more than {limit} pages")]
    TooManyPages {
        /// The maximum number of pages of a list.
        limit: usize,
    },
    /// The pages of a list together are larger than four times
    /// [`Limits::max_response_bytes`](crate::Limits::max_response_bytes).
    #[error("the list is larger than {limit} bytes")]
    ListTooLarge {
        /// The maximum total size of the pages, in bytes.
        limit: usize,
    },
    /// The client and the server have no supported revision in common.
    #[error(
        "the server and Pillion have no protocol revision in common: the server supports \
        {supported_versions}"
    )]
    NoCommonVersion {
        /// The revisions that the server supports, separated by commas.
        supported_versions: String,
    },
    /// Earlier attempts to connect failed, so the client did not try again before the end of the
    /// backoff.
    #[error(
        "the server is down{}; Pillion tries again in {:.1} s",
        format_reason_suffix(.cause),
        .retry_after.as_secs_f64()
    )]
    KnownDown {
        /// The remaining backoff before the next connection attempt.
        retry_after: Duration,
        /// Why the last connection attempt failed, if known.
        cause: Option<String>,
    },
    /// The server requests input, and the client has no handler for the input request, or the
    /// handler failed.
    #[error("the client cannot respond to the server's request '{method}': {reason}")]
    InputRequired {
        /// The method of the input request.
        method: String,
        /// The message of the handler's error; `Method not found` if there is no handler.
        reason: String,
    },
    /// The server requested input in too many rounds.
    #[error("no final result after {limit} rounds of input requests")]
    TooManyRounds {
        /// The maximum number of rounds in which a server may request input for one request.
        limit: u32,
    },
    /// The server sent too many input requests for one request or one task.
    #[error("the server sent more than {limit} input requests")]
    TooManyInputRequests {
        /// The maximum number of input requests.
        limit: usize,
    },
    /// The result has a `resultType` that the client does not know.
    #[error("the result has the unknown type '{result_type}'")]
    UnknownResultType {
        /// The value of `resultType`.
        result_type: String,
    },
    /// The task of the request was cancelled on the server.
    #[error("the server cancelled the task{}", format_reason_suffix(.message))]
    TaskCancelled {
        /// The status message that the server sent with the cancellation.
        message: Option<String>,
    },
    /// The server returned a JSON-RPC error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The operation exceeded its timeout.
    #[error("{}timed out after {:?}s", format_operation_prefix(.operation), .timeout.as_secs_f64())]
    Timeout {
        /// The timeout that was exceeded.
        timeout: Duration,
        /// The name of the operation, such as `tool 'roll' of server 'dice'`, if known.
        operation: Option<Box<str>>,
    },
    /// The client was disconnected ([`McpClient::disconnect`](crate::McpClient::disconnect)).
    #[error("Not connected to server")]
    Disconnected,
}

impl McpErrorKind {
    /// Removes the given credentials from the server's texts in the error.
    pub(super) fn redact(&mut self, secrets: &Secrets) {
        let redact_json = |error: &mut serde_json::Error| {
            if let Cow::Owned(text) = secrets.redacted(&error.to_string()) {
                *error = serde::de::Error::custom(text);
            }
        };
        match self {
            Self::Rpc(error) => error.redact(secrets),
            Self::HttpStatus {
                challenge,
                rpc_error,
                ..
            } => {
                challenge.iter_mut().for_each(|text| secrets.redact(text));
                rpc_error.iter_mut().for_each(|error| error.redact(secrets));
            }
            Self::ResponseLost(error) => error.redact(secrets),
            Self::InvalidMessage(error) | Self::UnexpectedResult { source: error, .. } => {
                redact_json(error);
            }
            Self::ContentType { content_type: text }
            | Self::ContentEncoding { encoding: text }
            | Self::NoCommonVersion {
                supported_versions: text,
            }
            | Self::UnknownResultType { result_type: text }
            | Self::ProcessEnded {
                last_stderr_line: text,
                ..
            } => secrets.redact(text),
            Self::InputRequired { method, reason } => {
                secrets.redact(method);
                secrets.redact(reason);
            }
            Self::KnownDown { cause: text, .. } | Self::TaskCancelled { message: text } => {
                text.iter_mut().for_each(|text| secrets.redact(text));
            }
            // The other errors contain no texts of the server, or texts from which the OAuth client
            // has already removed credentials.
            _ => {}
        }
    }

    /// Converts an error that occurred after the server had accepted the request. An error of the
    /// response itself stays unchanged; any other error becomes
    /// [`ResponseLost`](Self::ResponseLost).
    ///
    /// For example, the server may reject the GET that resumes the response's stream. That error
    /// must not look like a rejection of the request, because a rejected request is sent again.
    pub(crate) fn convert_after_acceptance(self) -> Self {
        if self.is_response_error() {
            self
        } else {
            Self::ResponseLost(Box::new(self))
        }
    }

    /// Returns whether the error occurred while the response was awaited or read, so that the
    /// server may have received the request.
    pub(crate) fn is_response_error(&self) -> bool {
        matches!(
            self,
            Self::ConnectionBroken(_)
                | Self::StreamClosed
                | Self::ProcessEnded { .. }
                | Self::ResponseLost(_)
                | Self::NoResponse
                | Self::ContentType { .. }
                | Self::ContentEncoding { .. }
                | Self::TooLarge { .. }
                | Self::TooManyValues(_)
                | Self::TooManyEvents { .. }
                | Self::Sse(_)
                | Self::InvalidUtf8
                | Self::InvalidMessage(_)
        )
    }

    /// Creates a timeout error without the name of an operation.
    pub(crate) fn timeout(timeout: Duration) -> Self {
        Self::Timeout {
            timeout,
            operation: None,
        }
    }
}

impl From<KnownDown> for McpErrorKind {
    fn from(KnownDown { retry_after }: KnownDown) -> Self {
        Self::KnownDown {
            retry_after,
            cause: None,
        }
    }
}

/// Returns the origin of a failed connection in parentheses, such as ` (http://127.0.0.1:9)`.
fn format_origin_suffix(error: &reqwest::Error) -> String {
    error.url().map_or_else(String::new, |url| {
        format!(" ({})", url.origin().ascii_serialization())
    })
}

/// Returns the name of the operation as the beginning of a message, such as `tool 'roll' of server
/// 'dice' `.
fn format_operation_prefix(operation: &Option<Box<str>>) -> String {
    let name = operation.as_deref();
    name.map_or_else(String::new, |name| format!("{name} "))
}

/// Returns the end of a message, such as `: connection refused`.
fn format_reason_suffix(message: &Option<String>) -> String {
    let text = message.as_deref();
    text.map_or_else(String::new, |text| format!(": {text}"))
}

/// Returns a message such as `the server's process ended (exit status: 1): no such file`.
fn format_process_end(status: &Option<ExitStatus>, last_stderr_line: &str) -> String {
    let mut text = "the server's process ended".to_owned();
    if let Some(status) = status {
        text.push_str(&format!(" ({status})"));
    }
    if !last_stderr_line.is_empty() {
        text.push_str(&format!(": {last_stderr_line}"));
    }
    text
}
