use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::sys::stat::{Mode, umask};
use pillion_core::tool::{ApprovalWish, CallContext};
use tokio::io::BufReader;

use super::CliError;

use crate::config::{AskClients, Config};
use crate::daemon::{DaemonError, StopSignals};
use crate::mcp_server::{Caller, stdio};
use crate::{logging, tools};

/// `pillion mcp-stdio`
#[derive(Debug, Args)]
pub(super) struct McpStdio {
    /// The configuration file (TOML); without one, the defaults and the environment hold
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Offer only the tools that this model of the configuration may see
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The user on whose behalf calls run
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

impl McpStdio {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        umask(Mode::from_bits_truncate(0o077));
        let config = Config::load(self.config.as_deref(), std::env::vars_os())?;
        // Standard error: on standard output there is nothing but messages.
        drop(logging::initialize(&config.log));
        // A read of standard input cannot be given up.
        super::run_and_leave(self.serve(&config))
    }

    async fn serve(&self, config: &Config) -> Result<(), CliError> {
        let stop =
            StopSignals::listen().map_err(|error| CliError::from(DaemonError::Signals(error)))?;
        let app = config.build(tools::registry().map_err(DaemonError::from)?, None);
        // Whoever started this decides on what it runs.
        let decider = match config.approvals.ask_clients {
            AskClients::Nobody => None,
            _ => Some(format!("uid:{}", nix::unistd::getuid())),
        };
        let context = CallContext {
            user: self.user.clone(),
            approval: ApprovalWish {
                decider,
                ..ApprovalWish::default()
            },
            ..CallContext::default()
        };
        let caller = Caller::new(&app, context, self.model.as_deref());
        let caller = caller.map_err(|error| CliError::Model(error.message))?;
        let input = BufReader::new(tokio::io::stdin());
        let grace = config.shutdown.grace;
        let output = tokio::io::stdout();
        let served = stdio::serve(&app, caller, input, output, grace, stop.first()).await;
        app.disconnect().await;
        served.map_err(CliError::Streams)
    }
}
