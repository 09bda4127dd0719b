use std::io;
use std::process::ExitCode;

use pillion_client::ClientError;
use pillion_core::store::StoreError;

use super::arguments::ArgumentsError;
use super::operator::OperatorError;

use pillion_config::ConfigError;
use pillion_gateway::credentials::CredentialError;
use pillion_mcp_server::bridge::BridgeConnectError;
use pillion_sidecar::daemon::DaemonError;
use pillion_sidecar::servers::ServerError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error("{0} ({code})", code = .0.code())]
    Store(#[from] StoreError),
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("{0} ({code}){hint}", code = .0.code(), hint = hint(.0))]
    Client(#[from] ClientError),
    #[error("cannot read standard input: {0}")]
    Input(#[source] io::Error),
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    #[error("the sidecar's response is not the expected JSON: {0}")]
    Answer(#[source] serde_json::Error),
    #[error("{0}")]
    Model(String),
    #[error("{0}")]
    Bridge(Box<BridgeConnectError>),
    #[error(
        "{0}; start the sidecar with `pillion serve`, or serve from this process with --standalone"
    )]
    NobodyToBridge(Box<BridgeConnectError>),
    #[error("standard input or output failed: {0}")]
    Streams(#[source] io::Error),
    #[error(transparent)]
    Operator(#[from] OperatorError),
    #[error("{0}")]
    Servers(#[from] ServerError),
    #[error("{0}")]
    Credential(#[from] CredentialError),
    #[error("Server not found: '{0}'; `pillion servers list` shows all servers")]
    NoServer(String),
    #[error("Access token not found: '{0}'; `pillion tokens list` shows the tokens of the store")]
    NoToken(String),
    #[error("{message}: '{id}' (not_found); `{list}` shows all ids")]
    NotThere {
        message: String,
        id: String,
        list: &'static str,
    },
    #[error("cannot read the access tokens: {0}")]
    Tokens(#[source] StoreError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error("{}", .0.line())]
    Mcp(super::mcp::McpCommandError),
}

/// Returns advice for an error that a new user may not understand.
fn hint(error: &ClientError) -> &'static str {
    match error {
        ClientError::NotRunning { .. } => {
            "; start it with `pillion serve`, or set its socket with --socket or PILLION_SOCKET"
        }
        _ => "",
    }
}

impl CliError {
    /// For status 404, returns an error with the requested ID and the command that lists the known
    /// IDs.
    pub(super) fn with_id(error: ClientError, id: &str, list: &'static str) -> Self {
        match error {
            ClientError::Status {
                status: 404,
                failure,
            } => Self::NotThere {
                message: failure.error,
                id: id.to_owned(),
                list,
            },
            error => Self::Client(error),
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::Model(_) | Self::Usage(_) | Self::Arguments(_) => {
                ExitCode::from(2)
            }
            Self::Mcp(error) => error.exit_code(),
            Self::Bridge(error) if error.is_bad_request() => ExitCode::from(2),
            // Users, groups and tokens that the configuration names are part of the configuration.
            Self::Daemon(DaemonError::Access(_) | DaemonError::Servers(_)) => ExitCode::from(2),
            Self::Daemon(_)
            | Self::Store(_)
            | Self::Runtime(_)
            | Self::Client(_)
            | Self::Input(_)
            | Self::Output(_)
            | Self::Answer(_)
            | Self::Operator(_)
            | Self::Servers(_)
            | Self::Credential(_)
            | Self::NoServer(_)
            | Self::NoToken(_)
            | Self::NotThere { .. }
            | Self::Tokens(_)
            | Self::Bridge(_)
            | Self::NobodyToBridge(_)
            | Self::Streams(_) => ExitCode::FAILURE,
        }
    }
}
