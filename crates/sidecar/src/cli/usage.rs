//! A command line that is none of ours.

use std::ffi::OsString;
use std::process::ExitCode;

use pillion_core::tool::ErrorCode;
use pillion_wire::Failure;
use serde_json::json;

use super::{complain, print};

/// Says what is wrong with the command line, or shows the help or the version that it asks
/// for. Where `pillion mcp` was to print JSON the error is JSON, too.
pub(super) fn explain(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if error.use_stderr() && wants_json(arguments) {
        let failure = Failure::new(ErrorCode::InvalidInput.as_str(), reason(error));
        if let Err(error) = print(&json!(failure).to_string()) {
            complain(&error.to_string());
        }
    }
    // That nobody reads it cannot be told.
    drop(error.print());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Whether the arguments, the program's name first, are those of a `pillion mcp ... --json`.
fn wants_json(arguments: &[OsString]) -> bool {
    let mut options = arguments.iter().skip(1).take_while(|word| *word != "--");
    options.next().is_some_and(|command| command == "mcp") && options.any(|word| word == "--json")
}

/// What is wrong, on one line: without the usage and the advice that follow on a terminal.
fn reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<_> = first.lines().map(str::trim).collect();
    lines.join(" ")
}
