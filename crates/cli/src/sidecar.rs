//! The common parts of the commands that connect to the sidecar.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pillion_client::{Caller, Client, Response};
use serde::de::DeserializeOwned;

use super::dispatch::{CommandResult, RunCommand};

/// The option for the socket's path.
#[derive(Debug, Args)]
pub(crate) struct SocketOption {
    /// The sidecar's socket [env: PILLION_SOCKET] [default: /run/pillion/pillion.sock for root,
    /// else $XDG_RUNTIME_DIR/pillion/pillion.sock]
    // The variable is read separately, because clap's `env` would make usage texts show the option
    // as required.
    #[arg(long, global = true, value_name = "PATH", display_order = 900)]
    socket: Option<PathBuf>,
}

// Runs `C` with a client of the sidecar. This comment is not a doc comment, because clap would show
// a doc comment instead of the help text of `C`.
#[derive(Debug, Args)]
pub(crate) struct SidecarCommand<C: Args, const TIMEOUT_SECONDS: u64 = 30> {
    #[command(flatten)]
    socket: SocketOption,
    #[command(flatten)]
    command: C,
}

impl<C: Args + RunCommand<Client>, const TIMEOUT_SECONDS: u64> RunCommand<()>
    for SidecarCommand<C, TIMEOUT_SECONDS>
{
    fn run(self, (): &()) -> CommandResult {
        let timeout = Duration::from_secs(TIMEOUT_SECONDS);
        self.command.run(&self.socket.create_client(timeout))
    }
}

impl SocketOption {
    /// Returns the socket path that the option or the environment variable sets.
    pub(crate) fn explicit_path(&self) -> Option<PathBuf> {
        self.socket.clone().or_else(read_socket_variable)
    }

    /// Returns a client of the sidecar.
    pub(crate) fn create_client(&self, timeout: Duration) -> Client {
        let explicit_path = self.explicit_path();
        let path = explicit_path.unwrap_or_else(pillion_client::default_socket_path);
        Client::builder(path).timeout(timeout).build()
    }
}

/// Returns the socket path that the environment variable sets.
pub(crate) fn read_socket_variable() -> Option<PathBuf> {
    let variable = std::env::var_os(pillion_client::SOCKET_VARIABLE);
    variable.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Parses a response of the sidecar.
pub(crate) fn decode<T: DeserializeOwned>(response: &Response<T>) -> Result<T, serde_json::Error> {
    serde_json::from_slice(response.body())
}

/// Returns the caller of a request on behalf of `user`, or an anonymous caller.
pub(crate) fn build_caller(user: Option<&str>) -> Caller {
    match user {
        Some(user) => Caller::default().user(user),
        None => Caller::default(),
    }
}

/// Returns only the query parameters that have a value.
pub(crate) fn build_query_parameters<const N: usize>(
    parameters: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    parameters
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}
