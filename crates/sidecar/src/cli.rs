//! The command line. A command is a file: its struct is what it parses, `apply` what it
//! does.
//!
//! Exit codes: 0 when all went well, 1 when something failed, 2 when the command line or
//! the configuration is wrong; 130 and 143 when SIGINT and SIGTERM ended `pillion mcp`.

mod approvals;
mod auth;
mod calls;
mod chat;
mod check;
mod completions;
mod error;
mod event_stream;
mod events;
mod examples;
mod input;
mod mcp;
mod mcp_stdio;
mod models;
mod operator;
mod packs;
mod pins;
mod providers;
mod report;
mod serve;
mod servers;
mod status;
mod store;
mod table;
mod tokens;
mod tools;
mod top;
mod usage;
mod vault;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::pins::{visible, visible_json};
use error::CliError;
use pillion_client::Client;
use serde::de::DeserializeOwned;

#[derive(Debug, Parser)]
#[command(
    name = "pillion",
    version,
    about = "Tools for applications that talk to language models",
    long_about = "Tools for applications that talk to language models.\n\n\
        `pillion serve` is the sidecar: a daemon that runs beside the applications of a host, keeps \
        the connections to MCP servers and runs the calls of tools. Most other commands speak to it \
        over its socket; `pillion mcp` speaks to any MCP server and needs none."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the sidecar until SIGTERM or SIGINT
    Serve(serve::Serve),
    /// Reads a configuration as `pillion serve` does, and says what is wrong with it
    Check(check::Check),
    /// Lists and calls the tools of a running sidecar
    Tools(tools::Tools),
    /// Chats with a language model that uses the tools
    Chat(chat::Chat),
    /// Shows which language models there are, and which tools each sees
    Models(models::Models),
    /// Shows where language models answer, and keeps their keys
    Providers(providers::Providers),
    /// Shows what a running sidecar has recorded of its calls
    Calls(calls::Calls),
    /// Shows the calls that wait for somebody's approval, and decides on them
    Approvals(approvals::Approvals),
    /// Shows what happens in a running sidecar, as it happens
    Events(events::Events),
    /// Shows the packs and what they keep, and removes that
    Packs(packs::Packs),
    /// Shows which tools of MCP servers have changed, and accepts them
    Pins(pins::Pins),
    /// Shows, adds, changes and removes the MCP servers of a running sidecar
    Servers(Box<servers::Servers>),
    /// Asks for authorizations with MCP servers, for a sidecar that has nobody to ask
    Auth(auth::Auth),
    /// Makes, lists and revokes the tokens that let requests over TCP in
    Tokens(tokens::Tokens),
    /// Changes the key that stored credentials are encrypted with
    Vault(vault::Vault),
    /// Serves one MCP client over standard input and output
    McpStdio(mcp_stdio::McpStdio),
    /// Shows how a running sidecar is doing
    Status(status::Status),
    /// Shows what a running sidecar does, as it does it
    Top(top::Top),
    /// Checks, copies or updates what the sidecar keeps
    Store(store::Store),
    /// Prints a script that completes commands and options in a shell
    Completions(completions::Completions),
    /// Probes, lists, calls and reads any MCP server
    Mcp(Box<mcp::Mcp>),
}

/// The socket's path, which every command takes.
#[derive(Debug, Args)]
struct SocketOption {
    /// The sidecar's socket [env: PILLION_SOCKET] [default: /run/pillion/pillion.sock for root,
    /// else $XDG_RUNTIME_DIR/pillion/pillion.sock]
    // The variable is not clap's affair: usages would show the option as one that is required.
    #[arg(long, global = true, value_name = "PATH", display_order = 900)]
    socket: Option<PathBuf>,
}

impl SocketOption {
    /// Where the sidecar is, if the option or the variable says it.
    fn named(&self) -> Option<PathBuf> {
        let option = self.socket.clone();
        option.or_else(named_socket)
    }

    /// Where the sidecar is.
    fn path(self) -> PathBuf {
        let named = self.named();
        named.unwrap_or_else(pillion_client::default_socket_path)
    }

    /// A client of the sidecar there.
    fn client(self, timeout: Duration) -> Client {
        Client::builder(self.path()).timeout(timeout).build()
    }
}

/// The socket that the environment names.
fn named_socket() -> Option<PathBuf> {
    let named = std::env::var_os(pillion_client::SOCKET_VARIABLE);
    named.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What the command line is made of, as the manual pages want to know it.
#[must_use]
pub fn command() -> clap::Command {
    with_negative_numbers(examples::add_to(Cli::command()))
}

/// With options that take `-1` for the value that it is, and say what is wrong with it.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| match argument.get_action().takes_values() {
        true if !argument.is_positional() => argument.allow_negative_numbers(true),
        _ => argument,
    };
    command
        .mut_args(allow)
        .mut_subcommands(with_negative_numbers)
}

/// Runs the program on the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = command().try_get_matches_from(&arguments);
    let cli = match cli.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage::explain(&error, &arguments),
    };
    let outcome = match cli.command {
        Command::Serve(serve) => serve.apply(),
        Command::Check(check) => check.apply(),
        Command::Tools(tools) => tools.apply(),
        Command::Chat(chat) => chat.apply(),
        Command::Models(models) => models.apply(),
        Command::Providers(providers) => providers.apply(),
        Command::Calls(calls) => calls.apply(),
        Command::Approvals(approvals) => approvals.apply(),
        Command::Events(events) => events.apply(),
        Command::Packs(packs) => packs.apply(),
        Command::Pins(pins) => pins.apply(),
        Command::Servers(servers) => servers.apply(),
        Command::Auth(auth) => auth.apply(),
        Command::Tokens(tokens) => tokens.apply(),
        Command::Vault(vault) => vault.apply(),
        Command::McpStdio(stdio) => stdio.apply(),
        Command::Status(status) => status.apply(),
        Command::Top(top) => top.apply(),
        Command::Store(store) => store.apply(),
        Command::Completions(completions) => completions.apply(),
        Command::Mcp(mcp) => mcp.apply(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            error.exit_code()
        }
    }
}

/// Runs a server to its end, and waits for nothing that is still going on then.
fn run_and_leave<E: Into<CliError>>(
    server: impl Future<Output = Result<(), E>>,
) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::Runtime)?;
    let outcome = runtime.block_on(server);
    runtime.shutdown_background();
    outcome.map_err(Into::into).map(|()| ExitCode::SUCCESS)
}

/// Reads a sidecar's answer.
fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CliError> {
    serde_json::from_slice(body).map_err(CliError::Answer)
}

/// Writes the text and ends the line.
fn print(text: &str) -> Result<(), CliError> {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        // The reader has seen enough, as in `pillion tools list | head -1`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CliError::Output),
    }
}

/// Writes JSON that others may have written, with nothing hidden: it says the same.
fn print_json(json: &str) -> Result<(), CliError> {
    print(&visible_json(json))
}

/// Tells the user what went wrong. That standard error is closed cannot be told.
fn complain(what: &str) {
    drop(writeln!(std::io::stderr(), "pillion: {}", visible(what)));
}
