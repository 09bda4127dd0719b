//! `pillion mcp`: a command-line client for any MCP server.

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
mod read;
mod server;
mod steps;
mod terminal;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::output::print;
pub(super) use error::{McpCommandError, McpUsageError};
use options::Options;
use positional_arguments::PositionalArguments;

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

/// The subcommands of `pillion mcp`, which are asynchronous.
#[derive(Debug, Subcommand)]
enum McpSubcommand {
    /// Detects the transport, the protocol revision and the capabilities of a server
    #[command(
        after_help = examples!["pillion mcp probe http://127.0.0.1:8000/mcp"],
        override_usage = "pillion mcp probe [OPTIONS] URL\n       pillion mcp probe [OPTIONS] -- COMMAND..."
    )]
    Probe(PositionalArguments),
    /// Lists the tools, resources or prompts of a server
    #[command(
        after_help = examples!["pillion mcp list http://127.0.0.1:8000/mcp tools"],
        override_usage = "pillion mcp list [OPTIONS] URL [tools|resources|templates|prompts]\n       pillion mcp list [OPTIONS] [tools|resources|templates|prompts] -- COMMAND..."
    )]
    List(PositionalArguments),
    /// Calls a tool and prints its result
    #[command(
        after_help = examples![
            "pillion mcp call http://127.0.0.1:8000/mcp roll dice=2d6",
            "pillion mcp call echo message=hello -- npx -y @modelcontextprotocol/server-everything",
        ],
        override_usage = "pillion mcp call [OPTIONS] URL NAME [KEY=VALUE... | JSON | - | @FILE]\n       pillion mcp call [OPTIONS] NAME [KEY=VALUE... | JSON | - | @FILE] -- COMMAND..."
    )]
    Call(PositionalArguments),
    /// Reads a resource
    #[command(
        after_help = examples!["pillion mcp read http://127.0.0.1:8000/mcp file:///notes.txt"],
        override_usage = "pillion mcp read [OPTIONS] URL RESOURCE-URI\n       pillion mcp read [OPTIONS] RESOURCE-URI -- COMMAND..."
    )]
    Read(PositionalArguments),
    /// Gets a prompt
    #[command(
        after_help = examples!["pillion mcp prompt http://127.0.0.1:8000/mcp greet name=Ada"],
        override_usage = "pillion mcp prompt [OPTIONS] URL NAME [KEY=VALUE...]\n       pillion mcp prompt [OPTIONS] NAME [KEY=VALUE...] -- COMMAND..."
    )]
    Prompt(PositionalArguments),
}

impl RunCommand<()> for McpCommand {
    fn run(self, (): &()) -> CommandResult {
        login::start_log(self.options.verbose);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(CliError::Runtime)?;
        let outcome = runtime.block_on(self.command.run(&self.options));
        // The process exits without waiting for tasks that are still running, such as reading from
        // a terminal.
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
            Self::Probe(positional_arguments) => probe::run(positional_arguments, options).await,
            Self::List(positional_arguments) => list::run(positional_arguments, options).await,
            Self::Call(positional_arguments) => call::run(positional_arguments, options).await,
            Self::Read(positional_arguments) => read::run(positional_arguments, options).await,
            Self::Prompt(positional_arguments) => prompt::run(positional_arguments, options).await,
        }
    }
}
