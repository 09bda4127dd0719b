use axum::extract::rejection::BytesRejection;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::executor::OptionError;
use pillion_core::json_error_text;
use pillion_core::json_values::TooManyValues;
use pillion_core::store::StoreError;
use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_wire::Failure;

use super::formats::FormatError;
use super::schema_check::RejectedSchema;
use crate::chat::ChatRefusal;
use crate::servers::ServerError;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::CredentialError;
use pillion_gateway::problem::{Problem, status_of_store};
use pillion_gateway::workers::WorkerRefusal;

/// Why a request was rejected before a tool ran.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("Malformed JSON: {}", json_error_text(.0))]
    MalformedJson(#[source] serde_json::Error),
    #[error("The request body is invalid: {0}")]
    NotThatBody(#[source] serde_json::Error),
    #[error("The body must be a JSON object with the tool's arguments")]
    NotAnObject,
    #[error("The request body is not a valid batch: {0}")]
    NotABatch(#[source] serde_json::Error),
    #[error("The batch has {calls} calls; the limit is {limit}")]
    BatchTooLong { calls: usize, limit: usize },
    #[error("The body is longer than {limit_bytes} bytes")]
    BodyTooLong { limit_bytes: usize },
    #[error("The body has {0}")]
    TooManyValues(#[from] TooManyValues),
    #[error(
        "The running requests of this caller have too many JSON values together: try again later, or \
         send smaller requests"
    )]
    TooManyRunningValues,
    #[error("The body did not arrive within {:.1}s", after.as_secs_f64())]
    BodyTooSlow { after: std::time::Duration },
    #[error("The request body is incomplete: the connection broke")]
    BodyBroken(#[source] BytesRejection),
    #[error("The header {header} must be UTF-8 of at most {limit_bytes} bytes")]
    BadHeader {
        header: &'static str,
        limit_bytes: usize,
    },
    #[error("The header idempotency-key must be 1 to 255 visible ASCII characters, quoted or not")]
    BadIdempotencyKey,
    #[error(
        "This Idempotency-Key was used for a different request: send a new key with a new request"
    )]
    KeyOfAnotherRequest,
    #[error("The request with this Idempotency-Key is still running")]
    KeyInProgress,
    #[error(
        "Too many requests of this caller are still running after their clients disconnected: try \
         again later"
    )]
    TooManyDetached,
    #[error("The tool's name in the path is not valid UTF-8")]
    BadToolName,
    #[error("The query is malformed: {0}")]
    BadQuery(String),
    #[error("The parameter '{name}' must be {expected}")]
    BadParameter {
        name: &'static str,
        /// The expected value.
        expected: String,
    },
    #[error(
        "The parameter '{0}' is not forwarded to the model's provider, which might run tools because \
         of it: omit it, or list it in extra_parameters of the provider's [[providers]] entry"
    )]
    UnknownParameter(String),
    #[error("The access token is for a different user than the one in the header x-pillion-user")]
    NotThatUser,
    #[error("{}", .0.error)]
    UnknownTool(Box<Failure>),
    #[error("There is no recorded call with this ID")]
    UnknownCall,
    #[error("Only a process that connects over the Unix socket can be a worker")]
    WorkerFromAfar,
    #[error("Only a process that connects over the Unix socket can upgrade its connection to MCP")]
    StreamFromAfar,
    #[error("Too many clients have upgraded their connections: the limit is http.max_connections")]
    TooManyStreams,
    #[error("Only a process that connects over the Unix socket can open an executor")]
    ExecutorFromAfar,
    #[error(transparent)]
    RejectedSchema(#[from] RejectedSchema),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    ExecutorOption(#[from] OptionError),
    #[error("{0}")]
    UnknownModel(String),
    #[error("This route needs the headers Connection: Upgrade and Upgrade: {protocol}")]
    NoUpgrade { protocol: &'static str },
    #[error("This sidecar is shutting down")]
    Draining,
    #[error("The request body is not a valid registration of a worker: {0}")]
    NotARegistration(#[source] serde_json::Error),
    #[error("{0}")]
    Worker(#[from] WorkerRefusal),
    #[error(
        "There is no stored result with this ID: it has expired, belongs to another user, or never \
         existed"
    )]
    UnknownResult,
    #[error("The stored result cannot be read")]
    UnreadableResult,
    #[error("There is no approval with this ID")]
    UnknownApproval,
    #[error("There is no provider '{name}': the configuration has {}", listed(.known))]
    UnknownProvider { name: String, known: Vec<String> },
    #[error("There is no built-in tool with this name whose service needs an API key")]
    NoToolKey,
    #[error(
        "The tool {tool} has no provider that needs an API key: set tools.{tool}.provider \
         ({providers})"
    )]
    KeylessTool {
        tool: &'static str,
        providers: &'static str,
    },
    #[error(transparent)]
    Chat(#[from] ChatRefusal),
    #[error("There is no pin for this tool")]
    UnknownPin,
    #[error("There is no such pack, or the pack stores no entries of this kind")]
    UnknownKind,
    #[error("The pack stores no entry with this name")]
    NotKept,
    #[error("There is no event stream with this name")]
    UnknownStream,
    #[error("{why}")]
    NotOpen { why: String },
    #[error("This sidecar has no store")]
    NoStore,
    #[error("{0}")]
    Store(#[source] StoreError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error("{}", .0.message)]
    Upstream(ToolFailure),
    #[error(
        "There is no route {}{}",
        truncate_input(path),
        base_url_of_a_client(path)
    )]
    UnknownRoute { path: String },
    #[error("The method {method} is not allowed for this route")]
    WrongMethod { method: Method },
    #[error("The sidecar failed unexpectedly")]
    Panicked,
}

/// Returns the names as a list, or `none`.
fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

impl RequestError {
    /// Returns the error for a parameter that is not `expected`.
    pub(super) fn parameter(name: &'static str, expected: impl Into<String>) -> Self {
        let expected = expected.into();
        Self::BadParameter { name, expected }
    }

    /// Returns the error for a parameter that is none of `words`.
    pub(super) fn word(name: &'static str, words: impl IntoIterator<Item = &'static str>) -> Self {
        let words: Vec<_> = words.into_iter().collect();
        Self::parameter(name, format!("one of {}", words.join(", ")))
    }

    fn translate(&self) -> (StatusCode, ErrorCode) {
        use ErrorCode::{Denied, InternalError, InvalidInput, NotFound, Timeout, Unavailable};
        match self {
            Self::MalformedJson(_)
            | Self::NotThatBody(_)
            | Self::NotAnObject
            | Self::NotABatch(_)
            | Self::NotARegistration(_)
            | Self::Worker(WorkerRefusal::Registration(_))
            | Self::BatchTooLong { .. }
            | Self::BodyBroken(_)
            | Self::BadHeader { .. }
            | Self::BadIdempotencyKey
            | Self::BadToolName
            | Self::ExecutorOption(_)
            | Self::RejectedSchema(_)
            | Self::Format(_)
            | Self::BadQuery(_)
            | Self::UnknownModel(_)
            | Self::UnknownParameter(_)
            | Self::BadParameter { .. } => (StatusCode::BAD_REQUEST, InvalidInput),
            Self::BodyTooLong { .. } | Self::TooManyValues(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, InvalidInput)
            }
            Self::BodyTooSlow { .. } => (StatusCode::REQUEST_TIMEOUT, Timeout),
            Self::Server(error) => error.translate(),
            Self::Credential(error) => error.translate(),
            Self::Chat(refusal) => refusal.translate(),
            Self::Store(error) => (status_of_store(error), error.code()),
            Self::Upstream(failure) => (status_of_upstream(failure.code), failure.code),
            Self::KeyOfAnotherRequest => (StatusCode::UNPROCESSABLE_ENTITY, InvalidInput),
            Self::KeyInProgress => (StatusCode::CONFLICT, Unavailable),
            Self::TooManyDetached | Self::TooManyRunningValues => {
                (StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited)
            }
            Self::NoStore
            | Self::Draining
            | Self::UnreadableResult
            | Self::TooManyStreams
            | Self::Worker(WorkerRefusal::TooMany { .. }) => {
                (StatusCode::SERVICE_UNAVAILABLE, Unavailable)
            }
            Self::NotThatUser
            | Self::WorkerFromAfar
            | Self::StreamFromAfar
            | Self::ExecutorFromAfar
            | Self::Worker(WorkerRefusal::Disabled) => (StatusCode::FORBIDDEN, Denied),
            Self::Worker(WorkerRefusal::NameTaken(_)) | Self::NotOpen { .. } => {
                (StatusCode::CONFLICT, InvalidInput)
            }
            Self::NoUpgrade { .. } => (StatusCode::UPGRADE_REQUIRED, InvalidInput),
            Self::UnknownTool(failure) if failure.error_code == Unavailable.as_str() => {
                (StatusCode::SERVICE_UNAVAILABLE, Unavailable)
            }
            Self::UnknownRoute { .. }
            | Self::UnknownTool(_)
            | Self::UnknownCall
            | Self::UnknownApproval
            | Self::UnknownPin
            | Self::UnknownProvider { .. }
            | Self::NoToolKey
            | Self::KeylessTool { .. }
            | Self::UnknownStream
            | Self::UnknownKind
            | Self::NotKept
            | Self::UnknownResult => (StatusCode::NOT_FOUND, NotFound),
            Self::WrongMethod { .. } => (StatusCode::METHOD_NOT_ALLOWED, InvalidInput),
            Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, InternalError),
        }
    }
}

/// Returns a hint about the base URL for a path that clients of language models request.
fn base_url_of_a_client(path: &str) -> &'static str {
    match path.trim_end_matches('/') {
        "/chat/completions" | "/models" | "/responses" | "/embeddings" => {
            "; the base URL of an OpenAI client must end in /v1"
        }
        "/v1/v1/messages" | "/v1/v1/messages/count_tokens" | "/v1/v1/models" => {
            "; the base URL of an Anthropic client must not end in /v1"
        }
        "/v1/v1/chat/completions" => "; the base URL of an OpenAI client must have only one /v1",
        _ => "",
    }
}

/// Returns the status for a failed request to an MCP server.
fn status_of_upstream(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::Denied => StatusCode::FORBIDDEN,
        ErrorCode::InvalidInput => StatusCode::BAD_REQUEST,
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let (status, code) = self.translate();
        let mut problem = Problem::new(status, code, self.to_string());
        if let Self::UnknownTool(failure) = &self {
            problem = problem.about(failure);
        }
        if let Self::Chat(refusal) = &self
            && let Some(code) = refusal.called()
        {
            problem = problem.called(code);
        }
        let mut response = problem.into_response();
        if matches!(
            self,
            Self::KeyInProgress | Self::TooManyDetached | Self::TooManyRunningValues
        ) {
            let soon = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, soon);
        }
        response
    }
}
