//! The command line. Each command has its own file: the struct describes the arguments, and `apply`
//! runs the command.
//!
//! Exit codes: 0 on success, 1 when something failed, 2 when the command line or the configuration
//! is wrong; 130 and 143 when SIGINT and SIGTERM ended `pillion mcp`.

mod approvals;
mod arguments;
mod auth;
mod calls;
mod chat;
mod check;
mod completions;
mod duration;
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
mod typed;
mod usage;
mod vault;
mod workers;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use error::CliError;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pillion_client::{Client, Response};
use pillion_gateway::pins::{visible, visible_json};
use serde::de::DeserializeOwned;

#[derive(Debug, Parser)]
#[command(
    name = "pillion",
    version,
    about = "Tools for applications that talk to language models",
    long_about = "Tools for applications that talk to language models.\n\n\
        `pillion serve` runs the sidecar: a daemon beside the applications of a host that keeps the \
        connections to MCP servers and runs tool calls. Most other commands connect to the sidecar \
        over its socket; `pillion mcp` connects to any MCP server and needs no sidecar."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the sidecar until SIGTERM or SIGINT
    Serve(serve::Serve),
    /// Checks a configuration as `pillion serve` reads it, and reports errors and warnings
    Check(check::Check),
    /// Lists and calls the tools of a running sidecar
    Tools(tools::Tools),
    /// Chats with a language model that uses the tools
    Chat(chat::Chat),
    /// Lists the language models, and the tools that each model may use
    Models(models::Models),
    /// Lists the language model providers, and stores their API keys
    Providers(providers::Providers),
    /// Shows the call log of a running sidecar
    Calls(calls::Calls),
    /// Lists the calls that wait for approval, and approves or denies them
    Approvals(approvals::Approvals),
    /// Streams the events of a running sidecar
    Events(events::Events),
    /// Lists the tool packs and their stored data, and removes stored data
    Packs(packs::Packs),
    /// Shows tools of MCP servers whose definition has changed, and accepts the changes
    Pins(pins::Pins),
    /// Lists, adds, changes and removes the MCP servers of a running sidecar
    Servers(Box<servers::Servers>),
    /// Authorizes the sidecar with MCP servers in your browser (OAuth)
    Auth(auth::Auth),
    /// Creates, lists and revokes access tokens for requests over TCP
    Tokens(tokens::Tokens),
    /// Rotates the key that encrypts stored credentials
    Vault(vault::Vault),
    /// Serves one MCP client over standard input and output
    McpStdio(mcp_stdio::McpStdio),
    /// Shows the status of a running sidecar
    Status(status::Status),
    /// Shows the activity of a running sidecar, continuously
    Top(top::Top),
    /// Lists the workers of a running sidecar: processes that offer their own tools
    Workers(workers::Workers),
    /// Checks, backs up or migrates the sidecar's store
    Store(store::Store),
    /// Prints a shell completion script
    Completions(completions::Completions),
    /// Probes any MCP server, lists what the server offers, calls tools and reads resources
    Mcp(Box<mcp::Mcp>),
}

/// The option for the socket's path, which many commands have.
#[derive(Debug, Args)]
struct SocketOption {
    /// The sidecar's socket [env: PILLION_SOCKET] [default: /run/pillion/pillion.sock for root,
    /// else $XDG_RUNTIME_DIR/pillion/pillion.sock]
    // The variable is read separately: with clap's `env`, usage texts would show the option as
    // required.
    #[arg(long, global = true, value_name = "PATH", display_order = 900)]
    socket: Option<PathBuf>,
}

impl SocketOption {
    /// Returns the path that the option or the variable names.
    fn named(&self) -> Option<PathBuf> {
        let option = self.socket.clone();
        option.or_else(named_socket)
    }

    /// Returns the path of the sidecar's socket.
    fn path(self) -> PathBuf {
        let named = self.named();
        named.unwrap_or_else(pillion_client::default_socket_path)
    }

    /// Returns a client of the sidecar.
    fn client(self, timeout: Duration) -> Client {
        Client::builder(self.path()).timeout(timeout).build()
    }
}

/// Returns the socket path that the environment variable names.
fn named_socket() -> Option<PathBuf> {
    let named = std::env::var_os(pillion_client::SOCKET_VARIABLE);
    named.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the definition of the command line, from which the manual pages are generated.
#[must_use]
pub fn command() -> clap::Command {
    with_negative_numbers(examples::add_examples(Cli::command()))
}

/// Lets options take negative numbers such as `-1`, so that the error names the invalid value.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| match argument.get_action().takes_values() {
        true if !argument.is_positional() => argument.allow_negative_numbers(true),
        _ => argument,
    };
    command
        .mut_args(allow)
        .mut_subcommands(with_negative_numbers)
}

/// Runs the program with the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    protect_memory();
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
        Command::Workers(workers) => workers.apply(),
        Command::Store(store) => store.apply(),
        Command::Completions(completions) => completions.apply(),
        Command::Mcp(mcp) => mcp.apply(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            print_diagnostic(&error.to_string());
            error.exit_code()
        }
    }
}

/// Keeps the memory of this process out of core dumps, and out of reach of other processes of the
/// user: it contains credentials, tokens and the key of the vault.
fn protect_memory() {
    // Both calls only lower what this process may do, and an old kernel's refusal must not prevent a
    // start. A core dump that is piped to a program ignores the limit, but not the flag.
    let _ = prctl::set_dumpable(false);
    if let Ok((_, max)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, max);
    }
}

/// Runs a server until it ends, without waiting for tasks that still run then.
fn run_without_joining<E: Into<CliError>>(
    server: impl Future<Output = Result<(), E>>,
) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::Runtime)?;
    let outcome = runtime.block_on(server);
    runtime.shutdown_background();
    pillion_sidecar::logging::flush();
    outcome.map_err(Into::into).map(|()| ExitCode::SUCCESS)
}

/// Parses a response of the sidecar.
fn decode<T: DeserializeOwned>(response: &Response<T>) -> Result<T, CliError> {
    serde_json::from_slice(response.body()).map_err(CliError::Answer)
}

/// Writes the text and a line break to standard output.
fn print(text: &str) -> Result<(), CliError> {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        // The reader closed the pipe, as in `pillion tools list | head -1`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CliError::Output),
    }
}

/// Prints JSON from an untrusted source, with invisible characters escaped; the JSON value stays
/// the same.
fn print_json(json: &str) -> Result<(), CliError> {
    print(&visible_json(json))
}

/// Prints an error or a warning. A further line of the text that looks like another diagnostic is
/// indented: the text may come from a server. A failure to write to standard error is ignored.
fn print_diagnostic(what: &str) {
    let what = visible(what).replace("\npillion:", "\n  pillion:");
    drop(writeln!(std::io::stderr(), "pillion: {what}"));
}
