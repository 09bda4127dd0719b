use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crate::egress::{EgressError, root_cause};
use crate::mcp::jsonrpc::RpcError;
use crate::mcp::{OAuthError, ServerConfigError, SseError};

/// What went wrong, step by step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpErrorKind {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ServerConfigError),
    /// The HTTP client cannot be set up, for instance without any trusted certificate.
    #[error("the HTTP client cannot be set up: {}", root_cause(.0))]
    Setup(#[source] reqwest::Error),
    /// The server's URL, or every address of its host, is one that may not be reached.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The request's parameters cannot be written as JSON.
    #[error("the parameters cannot be written as JSON: {0}")]
    Encode(#[source] serde_json::Error),
    /// No connection: refused, unknown host, TLS.
    #[error("{}{}", root_cause(.0), place(.0))]
    Connect(#[source] reqwest::Error),
    /// The connection broke, or the answer is no proper HTTP.
    #[error("the connection broke: {}", root_cause(&**.0))]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A status other than 2xx.
    #[error("HTTP {status}")]
    HttpStatus {
        /// The status code.
        status: u16,
        /// From `Retry-After`, when the server sent it in seconds.
        retry_after: Option<Duration>,
        /// From `WWW-Authenticate`.
        challenge: Option<String>,
        /// The JSON-RPC error in the body, where there is one.
        rpc: Option<Box<RpcError>>,
    },
    /// There is no token for the server.
    #[error("{0}")]
    Authorization(#[source] Arc<OAuthError>),
    /// A redirect that leaves the origin, or goes round in circles; it is not followed.
    #[error("a redirect to another place was refused")]
    Redirect,
    /// The `endpoint` that a legacy server announced is of another origin.
    #[error("the announced endpoint is of another origin")]
    ForeignEndpoint,
    /// An answer that is neither JSON nor an event stream.
    #[error("unexpected content type '{content_type}'")]
    ContentType {
        /// The first part of the header.
        content_type: String,
    },
    /// The answer is larger than allowed.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many events came, and none of them was the answer.
    #[error("no answer in the first {limit} events")]
    TooManyEvents {
        /// The limit.
        limit: usize,
    },
    /// The event stream cannot be read.
    #[error(transparent)]
    Sse(#[from] SseError),
    /// The body is not UTF-8.
    #[error("the answer is not valid UTF-8")]
    InvalidUtf8,
    /// The body is no JSON-RPC message.
    #[error("the answer is no JSON-RPC message: {0}")]
    InvalidMessage(#[source] serde_json::Error),
    /// A result that is not of the form that its method has.
    #[error("the result of '{method}' has an unexpected form: {source}")]
    UnexpectedResult {
        /// The method.
        method: &'static str,
        /// What did not fit.
        #[source]
        source: serde_json::Error,
    },
    /// The answer ended without a response to the request.
    #[error("No valid JSON-RPC response found")]
    NoResponse,
    /// The stream that answers come on has ended.
    #[error("the server closed the connection")]
    StreamClosed,
    /// The server's program cannot be started.
    #[error("'{program}' cannot be started: {source}")]
    Spawn {
        /// The program as it is configured, without arguments.
        program: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The server's process ended while it was needed.
    #[error("{}", process_end(.status, .last_words))]
    ProcessEnded {
        /// How, if that is known.
        status: Option<ExitStatus>,
        /// The last line of its standard error, or nothing; without the values of its
        /// configured environment.
        last_words: String,
    },
    /// The answer to the request for a WebSocket is none.
    #[error("the server does not speak WebSocket with the subprotocol 'mcp' here")]
    NotWebSocket,
    /// The other end sends back what it is sent, as `cat` does.
    #[error("it sends back what it is sent: it is no MCP server, or a terminal is in between")]
    Echo,
    /// The server does not know the session any more.
    #[error("the session has expired")]
    SessionExpired,
    /// More pages than allowed in one list.
    #[error("the list has more than {limit} pages")]
    TooManyPages {
        /// The limit.
        limit: usize,
    },
    /// All pages of one list together are larger than allowed.
    #[error("the list is larger than {limit} bytes")]
    ListTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The server speaks none of the revisions that are known here.
    #[error("the server speaks none of the known protocol revisions: {supported}")]
    NoCommonVersion {
        /// Those that it does speak.
        supported: String,
    },
    /// The last attempts to connect failed, so this one was not made.
    #[error(
        "the server is down{}; the next attempt is made in {:.1} s",
        reason(.cause),
        .retry_after.as_secs_f64()
    )]
    KnownDown {
        /// When the next attempt may be made.
        retry_after: Duration,
        /// Why the last one failed, if that is known.
        cause: Option<String>,
    },
    /// The server asks for something before it answers, and there is nobody to give it.
    #[error("the server asks for '{method}', which this client does not offer: {reason}")]
    InputRequired {
        /// The method of its question.
        method: String,
        /// Why there is no answer.
        reason: String,
    },
    /// The server asked for more and more before it answered.
    #[error("no answer after {limit} rounds of questions")]
    TooManyRounds {
        /// The limit.
        limit: u32,
    },
    /// A result of a type that is not known here.
    #[error("a result of the unknown type '{result_type}'")]
    UnknownResultType {
        /// The type.
        result_type: String,
    },
    /// The task that the server made of the request was cancelled there.
    #[error("the task was cancelled at the server{}", reason(.message))]
    TaskCancelled {
        /// What the server said about it.
        message: Option<String>,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The deadline passed.
    #[error("{}timed out after {:?}s", subject(.operation), .after.as_secs_f64())]
    Timeout {
        /// How long it was given.
        after: Duration,
        /// The operation, such as `tool 'roll' of server 'dice'`, if known.
        operation: Option<Box<str>>,
    },
    /// The client was disconnected on purpose.
    #[error("Not connected to server")]
    Disconnected,
}

impl McpErrorKind {
    /// Makes the timeout error of a step, without the name of an operation.
    pub(crate) fn timeout(after: Duration) -> Self {
        Self::Timeout {
            after,
            operation: None,
        }
    }
}

/// ` (http://127.0.0.1:9)`: to where there was no connection.
fn place(error: &reqwest::Error) -> String {
    error.url().map_or_else(String::new, |url| {
        format!(" ({})", url.origin().ascii_serialization())
    })
}

/// Returns the operation as the beginning of a message: `tool 'roll' of server 'dice' `.
fn subject(operation: &Option<Box<str>>) -> String {
    let operation = operation.as_deref();
    operation.map_or_else(String::new, |operation| format!("{operation} "))
}

fn reason(message: &Option<String>) -> String {
    message
        .as_ref()
        .map_or_else(String::new, |message| format!(": {message}"))
}

/// `the server's process ended (exit status: 1): no such file`.
fn process_end(status: &Option<ExitStatus>, last_words: &str) -> String {
    let mut text = "the server's process ended".to_owned();
    if let Some(status) = status {
        text.push_str(&format!(" ({status})"));
    }
    if !last_words.is_empty() {
        text.push_str(&format!(": {last_words}"));
    }
    text
}
