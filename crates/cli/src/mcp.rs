//! `pillion mcp`: a command line client for any MCP server.

mod authorization;
mod call;
mod command;
mod content;
pub(super) mod credential;
mod elicitation;
mod error;
mod interrupt;
mod list;
pub(super) mod login;
mod offer;
mod options;
mod plain;
mod positional_arguments;
mod probe;
mod progress;
mod prompt;
mod prompt_duration;
mod read;
mod server;
mod terminal;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{CliError, print};
pub(super) use error::McpCommandError;
use options::Options;
use pillion_config::{LogFormat, LogSection};
use pillion_sidecar::logging;

/// `pillion mcp`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion mcp probe http://127.0.0.1:8000/mcp
  pillion mcp list http://127.0.0.1:8000/mcp tools
  pillion mcp call http://127.0.0.1:8000/mcp roll dice=2d6
  pillion mcp call echo message=hello -- npx -y @modelcontextprotocol/server-everything
  pillion mcp call --server dice roll '{\"dice\": \"2d6\"}'
  TOKEN=... pillion mcp read https://mcp.example.com/mcp file:///notes.txt --bearer-env TOKEN
  pillion mcp list https://mcp.example.com/mcp --oauth

Exit codes: 0 on success, 1 if the tool or the server failed, 2 if the command line or the \
configuration is invalid, 130 after SIGINT, 143 after SIGTERM.")]
pub(super) struct Mcp {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Detects the transport, the protocol revision and the capabilities of a server
    Probe(probe::Probe),
    /// Lists the tools, resources or prompts of a server
    List(list::List),
    /// Calls a tool and prints its result
    Call(call::Call),
    /// Reads a resource
    Read(read::Read),
    /// Gets a prompt
    Prompt(prompt::Prompt),
}

impl Mcp {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        log(self.options.verbose);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(CliError::Runtime)?;
        let as_json = self.options.json;
        let outcome = runtime.block_on(self.command.apply(&self.options));
        // Does not wait for tasks that still run, such as reading from a terminal.
        runtime.shutdown_background();
        match outcome {
            Ok(code) => Ok(code),
            Err(error) => {
                if as_json {
                    print(&error.to_json())?;
                }
                Err(CliError::Mcp(error))
            }
        }
    }
}

impl Command {
    async fn apply(self, options: &Options) -> Result<ExitCode, McpCommandError> {
        match self {
            Self::Probe(probe) => probe.apply(options).await,
            Self::List(list) => list.apply(options).await,
            Self::Call(call) => call.apply(options).await,
            Self::Read(read) => read.apply(options).await,
            Self::Prompt(prompt) => prompt.apply(options).await,
        }
    }
}

/// Logs warnings, and with `--verbose` debug messages. Results that do not match the tool's output
/// schema are reported by the command itself, not by the log.
fn log(verbose: bool) {
    let level = if verbose { "debug" } else { "warn" };
    let filter = format!("warn,pillion={level},pillion_mcp_client::client::methods=error");
    let Ok(filter) = filter.try_into() else {
        return;
    };
    let format = LogFormat::Text;
    drop(logging::initialize(&LogSection { format, filter }));
}
