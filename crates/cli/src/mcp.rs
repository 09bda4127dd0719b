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
mod log;
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
mod steps;
mod terminal;
mod usage_error;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::output::print;
pub(super) use error::McpCommandError;
use options::Options;
pub(super) use usage_error::McpUsageError;

/// Probes any MCP server, lists what the server offers, calls tools and reads resources
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion mcp probe http://127.0.0.1:8000/mcp",
    "pillion mcp list http://127.0.0.1:8000/mcp tools",
    "pillion mcp call http://127.0.0.1:8000/mcp roll dice=2d6",
    "pillion mcp call echo message=hello -- npx -y @modelcontextprotocol/server-everything",
    "pillion mcp call --server dice roll '{\"dice\": \"2d6\"}'",
    "TOKEN=... pillion mcp read https://mcp.example.com/mcp file:///notes.txt --bearer-env TOKEN",
    "pillion mcp list https://mcp.example.com/mcp --oauth",
])]
pub(super) struct McpCommand {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: McpSubcommand,
}

/// The commands, which are asynchronous.
#[derive(Debug, Subcommand)]
enum McpSubcommand {
    Probe(probe::Probe),
    List(list::ListOffers),
    Call(call::CallServerTool),
    Read(read::ReadResource),
    Prompt(prompt::GetPrompt),
}

impl RunCommand<()> for McpCommand {
    fn run(self, (): &()) -> CommandResult {
        log::start(self.options.verbose);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(CliError::Runtime)?;
        let outcome = runtime.block_on(self.command.run(&self.options));
        // Does not wait for tasks that still run, such as reading from a terminal.
        runtime.shutdown_background();
        if let Err(error) = &outcome
            && self.options.json
        {
            print(&error.to_json())?;
        }
        Ok(outcome?)
    }
}

impl McpSubcommand {
    async fn run(self, options: &Options) -> Result<ExitCode, McpCommandError> {
        match self {
            Self::Probe(probe) => probe.run(options).await,
            Self::List(list) => list.run(options).await,
            Self::Call(call) => call.run(options).await,
            Self::Read(read) => read.run(options).await,
            Self::Prompt(prompt) => prompt.run(options).await,
        }
    }
}
