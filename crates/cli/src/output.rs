//! What commands write to standard output and standard error.

mod error;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Args;
use pillion_client::Response;
use pillion_gateway::pins::{visible, visible_json};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dispatch::CommandResult;
use crate::sidecar::decode;
pub(crate) use error::OutputError;

/// The option for JSON output.
#[derive(Debug, Args)]
pub(crate) struct JsonOption {
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl JsonOption {
    /// Prints a response of the sidecar: unchanged with `--json`, else as text.
    pub(crate) fn print<T: DeserializeOwned>(
        &self,
        response: &Response<T>,
        to_text: impl FnOnce(T) -> String,
    ) -> CommandResult {
        if self.json {
            return print_body(response);
        }
        print_result(&to_text(decode(response)?))
    }
}

/// Prints the result of a successful command.
pub(crate) fn print_result(text: &str) -> CommandResult {
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the unchanged response of the sidecar as the result of a successful command.
pub(crate) fn print_body<T>(response: &Response<T>) -> CommandResult {
    print_json(&response.text())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of a successful command as indented JSON.
pub(crate) fn print_pretty(value: &impl Serialize) -> CommandResult {
    // The value is parsed first, because serde_json would print a raw JSON value on one line.
    let json = serde_json::to_value(value)?;
    print_json(&serde_json::to_string_pretty(&json)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints JSON from an untrusted source, with invisible characters escaped; the JSON value stays
/// the same.
pub(crate) fn print_json(json: &str) -> Result<(), OutputError> {
    print(&visible_json(json))
}

/// Writes the text and a line break to standard output.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    print_bytes(format!("{text}\n").as_bytes())
}

/// Writes bytes to standard output. Succeeds if the reader closed the pipe, as in
/// `pillion tools list | head -1`.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), OutputError> {
    match write(io::stdout(), bytes) {
        Err(OutputError(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        write_result => write_result,
    }
}

/// Writes bytes and flushes the output.
pub(crate) fn write(mut output: impl Write, bytes: &[u8]) -> Result<(), OutputError> {
    let write_result = output.write_all(bytes).and_then(|()| output.flush());
    write_result.map_err(OutputError)
}

/// Writes text to standard error, without a line break. A failure to write is ignored.
pub(crate) fn eprint(text: &str) {
    drop(write(io::stderr(), text.as_bytes()));
}

/// Prints an error or a warning. If a further line of the text looks like another diagnostic, the
/// line is indented, because the text may come from a server. A failure to write to standard error
/// is ignored.
pub(crate) fn print_diagnostic(diagnostic: &str) {
    let text = visible(diagnostic).replace("\npillion:", "\n  pillion:");
    eprint(&format!("pillion: {text}\n"));
}
