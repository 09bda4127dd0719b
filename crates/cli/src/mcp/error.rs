use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pillion_config::ConfigError;
use pillion_core::tool::ErrorCode;
use pillion_core::variable;
use pillion_mcp_client::{McpError, McpErrorKind, OAuthError, ProbeStep, ServerConfigError};
use pillion_wire::Failure;
use serde_json::{Value, json};

use super::interrupt::StopSignal;
use super::{plain, steps};
use crate::arguments::ArgumentsError;
use crate::output::OutputError;

/// Why a command of `pillion mcp` failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpCommandError {
    #[error(transparent)]
    Usage(#[from] McpUsageError),
    #[error("{server_name}: {source}{}", format_hint(source, available_names))]
    Request {
        server_name: String,
        #[source]
        source: Box<McpError>,
        /// The connection attempts, if connecting failed.
        steps: Vec<ProbeStep>,
        /// The names in the server's list, if the requested name is not among them.
        available_names: Vec<String>,
    },
    #[error("{server_name}: timed out after {:?}s", timeout.as_secs_f64())]
    TimedOut {
        server_name: String,
        timeout: Duration,
    },
    #[error("{server_name}: the result has an unexpected form: {source}")]
    UnexpectedResult {
        server_name: String,
        source: serde_json::Error,
    },
    #[error("interrupted by a signal")]
    Interrupted(StopSignal),
    #[error("cannot listen on 127.0.0.1:{port} for the authorization response: {source}")]
    Listen { port: u16, source: std::io::Error },
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] std::io::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl From<ArgumentsError> for McpCommandError {
    fn from(error: ArgumentsError) -> Self {
        Self::Usage(error.into())
    }
}

impl McpCommandError {
    /// Returns whether the server responded with an error.
    pub(super) fn is_from_server(&self) -> bool {
        matches!(self, Self::Request { source, .. } if source.rpc_error().is_some())
    }

    /// Adds the connection attempts to the error of a failed connection; leaves other errors
    /// unchanged.
    pub(super) fn with_steps(mut self, attempts: Vec<ProbeStep>) -> Self {
        if let Self::Request { steps, .. } = &mut self {
            *steps = attempts;
        }
        self
    }

    /// Adds the names in the server's list to the error, if the server rejected a name that is not
    /// in the list.
    pub(super) fn with_known_names(mut self, name: &str, names: Vec<String>) -> Self {
        let is_from_server = self.is_from_server();
        if let Self::Request {
            available_names, ..
        } = &mut self
            && is_from_server
            && !names.iter().any(|known_name| known_name == name)
        {
            *available_names = names;
        }
        self
    }

    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::Usage(error) => error.code(),
            Self::Request {
                available_names, ..
            } if !available_names.is_empty() => ErrorCode::NotFound,
            Self::Request { source, .. } => pillion_mcp_tools::error_code(source.class()),
            Self::TimedOut { .. } => ErrorCode::Timeout,
            Self::Interrupted(_) => ErrorCode::Cancelled,
            Self::UnexpectedResult { .. } | Self::Signals(_) | Self::Output(_) => {
                ErrorCode::InternalError
            }
            Self::Listen { .. } => ErrorCode::Unavailable,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Interrupted(signal) => ExitCode::from(signal.exit_code()),
            Self::Request { .. }
            | Self::TimedOut { .. }
            | Self::UnexpectedResult { .. }
            | Self::Listen { .. }
            | Self::Signals(_)
            | Self::Output(_) => ExitCode::FAILURE,
        }
    }

    /// Returns the error and its code on one line, safe for a terminal: a server may have written
    /// parts of the error.
    pub(crate) fn to_line(&self) -> String {
        let message = plain::to_one_line(&self.to_string());
        format!("{message} ({})", self.code())
    }

    /// Returns the error as `--json` prints it, in the format of the sidecar's errors.
    pub(super) fn to_json(&self) -> String {
        let mut failure = Failure::new(self.code().as_str(), self.to_string());
        if let Self::Request {
            source,
            steps,
            available_names,
            ..
        } = self
        {
            let mut add_detail = |key: &str, value: Value| {
                failure.details.insert(key.to_owned(), value);
            };
            if let Some(error) = source.rpc_error() {
                add_detail("rpc", json!(error));
            }
            if let Some(status) = source.http_status() {
                add_detail("http_status", json!(status));
            }
            if let Some(delay) = source.retry_after() {
                add_detail("retry_after", json!(delay.as_secs_f64()));
            }
            if !steps.is_empty() {
                add_detail("steps", steps::to_json(steps));
            }
            if !available_names.is_empty() {
                add_detail("available", json!(available_names));
            }
        }
        json!(failure).to_string()
    }
}

fn format_hint(error: &McpError, names: &[String]) -> String {
    if !names.is_empty() {
        return format_available_names(names);
    }
    match error.kind() {
        McpErrorKind::HttpStatus { status: 401, .. } => {
            "; the server requires a credential: pass --bearer-env, --bearer-file or \
            --header-env, or --oauth to authorize in a browser"
                .to_owned()
        }
        McpErrorKind::Authorization(error) if matches!(**error, OAuthError::NoPrompt) => {
            "; pass --oauth to authorize in a browser".to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the available names, for an error about an unknown name.
pub(super) fn format_available_names(names: &[String]) -> String {
    const MAX_SHOWN_NAMES: usize = 20;
    match names {
        [] => String::new(),
        _ if names.len() > MAX_SHOWN_NAMES => {
            format!("; available: {}, ...", names[..MAX_SHOWN_NAMES].join(", "))
        }
        _ => format!("; available: {}", names.join(", ")),
    }
}

pub(crate) type Result<T, E = McpUsageError> = std::result::Result<T, E>;

/// Why the command line or the configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpUsageError {
    #[error("no server is given: pass its URL first, or --server NAME, or -- COMMAND at the end")]
    MissingServer,
    #[error("two servers are given: pass only one of a URL, --server NAME and -- COMMAND")]
    AmbiguousServer,
    #[error("'{word}' is not the URL of a server, such as http://127.0.0.1:8000/mcp")]
    NotAUrl { word: String },
    #[error(
        "the configuration has no MCP server '{name}'; its servers: {}",
        join_names(known_names)
    )]
    UnknownServer {
        name: String,
        known_names: Vec<String>,
    },
    #[error("--server needs a configuration file: set it with --config or PILLION_CONFIG")]
    MissingConfiguration,
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    #[error(transparent)]
    Server(#[from] ServerConfigError),
    #[error("{option} must have the form {form}")]
    OptionForm {
        option: &'static str,
        form: &'static str,
    },
    #[error("{options} can only be used with {requirement}")]
    MisplacedOptions {
        options: &'static str,
        requirement: &'static str,
    },
    #[error("{} is not set, or empty", variable::describe(name))]
    UnsetVariable { name: String },
    #[error("cannot read the credential in {}: {source}", path.display())]
    ReadCredential {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the credential in {} is empty", path.display())]
    EmptyCredential { path: PathBuf },
    #[error("{argument} is missing")]
    MissingArgument { argument: &'static str },
    #[error("unexpected argument '{word}'")]
    UnexpectedArgument { word: String },
    #[error("cannot list '{word}': expected tools, resources, templates or prompts")]
    UnknownKind { word: String },
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
}

impl McpUsageError {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownServer { .. } => ErrorCode::NotFound,
            _ => ErrorCode::InvalidInput,
        }
    }
}

fn join_names(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
