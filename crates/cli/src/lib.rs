//! The command line. Each command is a struct of arguments, which `dispatch.rs` explains.
//! `Commands` lists the groups of commands, each of which has a file.
//!
//! Exit codes: 0 on success, 1 when something failed, 2 when the command line or the configuration
//! is wrong; 130 and 143 when SIGINT and SIGTERM ended `pillion mcp`.

#[macro_use]
mod dispatch;
#[macro_use]
mod examples;

mod approvals;
mod arguments;
mod auth;
mod calls;
mod chat;
mod check;
mod completions;
mod console;
mod duration;
mod error;
mod event_stream;
mod events;
mod input;
mod mcp;
mod mcp_stdio;
mod models;
mod operator;
mod output;
mod packs;
mod pins;
mod process;
mod providers;
mod report;
mod serve;
mod servers;
mod sidecar;
mod status;
mod store;
mod table;
mod tokens;
mod tools;
mod top;
mod typed;
mod usage;
mod vault;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use dispatch::RunCommand;
use sidecar::SidecarCommand;

#[derive(Debug, Parser)]
#[command(
    name = "pillion",
    version,
    about = "Tools for applications that talk to language models",
    long_about = "Tools for applications that talk to language models.\n\n\
        `pillion serve` runs the sidecar: a daemon beside the applications of a host that keeps the \
        connections to MCP servers and runs tool calls. Most other commands connect to the sidecar \
        over its socket; `pillion mcp` connects to any MCP server and needs no sidecar.",
    after_help = examples![
        "pillion serve --config /etc/pillion/pillion.toml",
        "pillion tools call calculator '{\"expression\": \"6 * 7\"}'",
        "pillion servers add weather --url https://mcp.example.com/mcp",
        "pillion mcp-stdio",
    ]
)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

commands! {
    enum Commands: () {
        Serve(serve::ServeCommand),
        Check(check::CheckCommand),
        Tools(tools::ToolsCommand),
        Chat(SidecarCommand<chat::ChatCommand>),
        Models(SidecarCommand<models::ModelsCommand, 60>),
        Providers(SidecarCommand<providers::ProvidersCommand>),
        Calls(SidecarCommand<calls::CallsCommand>),
        Approvals(SidecarCommand<approvals::ApprovalsCommand>),
        Events(SidecarCommand<events::EventsCommand>),
        Packs(SidecarCommand<packs::PacksCommand>),
        Pins(SidecarCommand<pins::PinsCommand>),
        Servers(Box<servers::ServersCommand>),
        Auth(auth::AuthCommand),
        Tokens(tokens::TokensCommand),
        Vault(vault::VaultCommand),
        McpStdio(mcp_stdio::McpStdioCommand),
        Console(console::ConsoleCommand),
        Status(SidecarCommand<status::StatusCommand, 65>),
        Top(SidecarCommand<top::TopCommand, 65>),
        Workers(SidecarCommand<workers::WorkersCommand, 65>),
        Store(store::StoreCommand),
        Completions(completions::CompletionsCommand),
        Mcp(Box<mcp::McpCommand>),
    }
}

/// Returns the definition of the command line, from which the manual pages are generated.
#[must_use]
pub fn command() -> clap::Command {
    with_negative_numbers(examples::add_exit_codes(Cli::command()))
}

/// Lets options take negative numbers such as `-1`, so that the error names the invalid value.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow_negative_numbers = |argument: clap::Arg| {
        if argument.get_action().takes_values() && !argument.is_positional() {
            argument.allow_negative_numbers(true)
        } else {
            argument
        }
    };
    command
        .mut_args(allow_negative_numbers)
        .mut_subcommands(with_negative_numbers)
}

/// Runs the program with the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    process::protect_memory();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let matches = command().try_get_matches_from(&arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage::explain(&error, &arguments),
    };
    cli.command.run(&()).unwrap_or_else(|error| {
        output::print_diagnostic(&error.to_string());
        error.exit_code()
    })
}
