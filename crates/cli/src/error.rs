use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use pillion_client::ClientError;
use pillion_core::store::StoreError;

use super::arguments::ArgumentsError;
use super::input::InputError;
use super::mcp::{McpCommandError, McpUsageError};
use super::operator::OperatorError;
use super::output::OutputError;

use pillion_config::ConfigError;
use pillion_gateway::credentials::CredentialError;
use pillion_management::servers::ServerError;
use pillion_mcp_server::bridge::BridgeConnectError;
use pillion_sidecar::daemon::DaemonError;

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
    #[error("{0} ({code}){advice}", code = .0.code(), advice = advice(.0))]
    Client(#[from] ClientError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("the sidecar's response is not the expected JSON: {0}")]
    Response(#[from] serde_json::Error),
    #[error("{0}")]
    Bridge(Box<BridgeConnectError>),
    #[error(
        "{0}; start the sidecar with `pillion serve`, or serve from this process with --standalone"
    )]
    NoSidecar(Box<BridgeConnectError>),
    #[error("standard input or output failed: {0}")]
    StandardStreams(#[source] io::Error),
    #[error("cannot listen on {address} for the console: {error}; choose another --port")]
    ConsolePort {
        address: SocketAddr,
        error: io::Error,
    },
    #[error("the connection to the sidecar failed: {0}")]
    SidecarStream(#[source] io::Error),
    #[error(transparent)]
    Operator(#[from] OperatorError),
    #[error("{0}")]
    Servers(#[from] ServerError),
    #[error("{0}")]
    Credential(#[from] CredentialError),
    #[error("Server not found: '{0}'; `pillion servers list` shows all servers")]
    UnknownServer(String),
    #[error("Access token not found: '{0}'; `pillion tokens list` shows the tokens of the store")]
    UnknownToken(String),
    #[error("{message} (not_found); `{list_command}` shows all ids")]
    UnknownId {
        message: String,
        list_command: &'static str,
    },
    #[error("cannot read the access tokens: {0}")]
    Tokens(#[source] StoreError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error("{}", .0.to_line())]
    Mcp(#[from] McpCommandError),
}

impl From<McpUsageError> for CliError {
    fn from(error: McpUsageError) -> Self {
        Self::Mcp(error.into())
    }
}

/// Returns advice to append to an error that a new user may not understand.
fn advice(error: &ClientError) -> &'static str {
    match error {
        ClientError::NotRunning { .. } => {
            "; start it with `pillion serve`, or set its socket with --socket or PILLION_SOCKET"
        }
        _ => "",
    }
}

impl CliError {
    /// Converts an error of status 404 to an error that names the command that lists the known IDs.
    pub(super) fn with_list_command(error: ClientError, list_command: &'static str) -> Self {
        match error {
            ClientError::Status {
                status: 404,
                failure,
            } => Self::UnknownId {
                message: failure.error,
                list_command,
            },
            error => Self::Client(error),
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        let is_invalid_input = match self {
            Self::Mcp(error) => return error.exit_code(),
            Self::Config(_) | Self::Usage(_) | Self::Arguments(_) => true,
            Self::Input(error) => matches!(error, InputError::TooLarge),
            Self::Bridge(error) => error.is_bad_request(),
            // `Access` and `Servers` are errors in the configuration: access rules that cannot be
            // applied, or a vault that cannot be opened.
            Self::Daemon(error) => {
                matches!(error, DaemonError::Access(_) | DaemonError::Servers(_))
            }
            _ => false,
        };
        if is_invalid_input {
            ExitCode::from(2)
        } else {
            ExitCode::FAILURE
        }
    }
}
