use std::path::PathBuf;

use clap::Args;
use pillion_core::tool::{ApprovalRequestOptions, CallContext};
use tokio::io::BufReader;

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::process::{restrict_new_files, run_without_joining};
use super::sidecar::SocketOption;

use pillion_config::{Config, ElicitFrom};
use pillion_gateway::access::Access;
use pillion_gateway::state::State;
use pillion_gateway::visibility::Visibility;
use pillion_mcp_server::bridge::{self, Target};
use pillion_mcp_server::stdio::{Client, StdioShutdown};
use pillion_sidecar::daemon::{Assembly, DaemonError, StopSignals};
use pillion_sidecar::logging;
use pillion_sidecar::reload::Source;

/// Serves one MCP client over standard input and output
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion mcp-stdio",
    "pillion mcp-stdio --socket /run/pillion/pillion.sock --user ada",
    "pillion mcp-stdio --standalone --config /etc/pillion/pillion.toml",
])]
pub(super) struct McpStdioCommand {
    /// The configuration file (TOML); without it, the defaults and the environment apply
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    socket: SocketOption,
    /// Runs tools in this process, even if a sidecar is running; the default if no sidecar is
    /// running and neither --socket nor PILLION_SOCKET is set
    #[arg(long)]
    standalone: bool,
    /// Offers only the tools that this model of the configuration may use
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The user on whose behalf calls run
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The channel or conversation that calls come from; memories belong to this channel alone
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
}

impl RunCommand<()> for McpStdioCommand {
    fn run(self, (): &()) -> CommandResult {
        restrict_new_files();
        let source = Source {
            file: self.config.clone(),
            socket: self.socket.explicit_path(),
        };
        let config = source.load()?.config;
        // Logs go to standard error, because standard output carries only messages.
        drop(logging::initialize(&config.log));
        // The process exits without waiting for a pending read of standard input, which cannot be
        // cancelled.
        run_without_joining(self.serve(&config))
    }
}

impl McpStdioCommand {
    async fn serve(self, config: &Config) -> Result<(), CliError> {
        let stop_signals = StopSignals::listen().map_err(DaemonError::Signals)?;
        if self.standalone {
            return Box::pin(self.serve_standalone(config, stop_signals)).await;
        }
        let socket_path = config.socket.path.clone();
        let target = Target {
            socket: socket_path.unwrap_or_else(pillion_client::default_socket_path),
            user: self.user.clone(),
            channel: self.channel.clone(),
            model: self.model.clone(),
        };
        let connection = match target.connect().await {
            Ok(connection) => connection,
            Err(error) if error.is_not_listening() && self.socket.explicit_path().is_some() => {
                return Err(CliError::NoSidecar(Box::new(error)));
            }
            Err(error) if error.is_not_listening() => {
                tracing::warn!("Serving the tools of this process only: {error}");
                return Box::pin(self.serve_standalone(config, stop_signals)).await;
            }
            Err(error) => return Err(CliError::Bridge(Box::new(error))),
        };
        tracing::info!(socket = %target.socket.display(), "Serving the sidecar's tools");
        let input = BufReader::new(tokio::io::stdin());
        let (output, grace) = (tokio::io::stdout(), config.shutdown.grace);
        let stop = stop_signals.wait_for_first();
        let bridge_future = bridge::serve(target, connection, input, output, grace, stop);
        Box::pin(bridge_future)
            .await
            .map_err(CliError::StandardStreams)
    }

    /// Serves the client without a sidecar.
    async fn serve_standalone(
        self,
        config: &Config,
        stop_signals: StopSignals,
    ) -> Result<(), CliError> {
        let state = State::open_shared(config)
            .await
            .map_err(DaemonError::from)?;
        let Assembly { current_app, .. } =
            Assembly::build(config, &state, Access::default()).await?;
        // The MCP client's user may decide on calls that need approval, because that user started
        // this process.
        let decider = match config.approvals.elicit_from {
            ElicitFrom::None => None,
            _ => Some(format!("uid:{}", nix::unistd::getuid())),
        };
        let context = CallContext {
            user: self.user,
            is_user_verified: true,
            channel: self.channel,
            approval: ApprovalRequestOptions {
                decider,
                ..ApprovalRequestOptions::default()
            },
            ..CallContext::default()
        };
        let client_app = current_app.clone();
        let current_mcp = move || client_app.app().mcp().clone();
        let client = Client::new(current_mcp, context, Visibility::default(), self.model)
            .map_err(|error| CliError::Usage(error.message))?;
        let input = BufReader::new(tokio::io::stdin());
        let output = tokio::io::stdout();
        let shutdown = StdioShutdown {
            grace: config.shutdown.grace,
            announcement: std::future::pending(),
            access_ended: std::future::pending(),
        };
        let result = tokio::select! {
            result = client.serve(input, output, shutdown) => result,
            () = stop_signals.wait_for_first() => Ok(()),
        };
        // Unfinished calls are marked as interrupted before the servers are disconnected, because a
        // call that waits for a disconnected server would otherwise be recorded as failed.
        state.interrupt_own_calls().await;
        current_app.app().disconnect().await;
        current_app.app().stop_telemetry().await;
        drop(current_app);
        state.close().await;
        result.map_err(CliError::StandardStreams)
    }
}
