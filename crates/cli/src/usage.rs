//! Invalid command lines.

use std::ffi::OsString;
use std::process::ExitCode;

use pillion_core::tool::ErrorCode;
use pillion_wire::Failure;
use serde_json::json;

use super::output::{print, print_diagnostic};

/// Prints an error in the command line, or the requested help or version. With `pillion mcp --json`
/// the error is printed as JSON.
pub(super) fn explain(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if error.use_stderr() && has_json_option(arguments) {
        let failure = Failure::new(
            ErrorCode::InvalidInput.as_str(),
            format_error_message(error),
        );
        if let Err(error) = print(&json!(failure).to_string()) {
            print_diagnostic(&error.to_string());
        }
    }
    // A failure to write the message is ignored.
    drop(error.print());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Returns whether the arguments, which start with the program's name, are those of a
/// `pillion mcp ... --json` command.
fn has_json_option(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1).take_while(|word| *word != "--");
    words.next().is_some_and(|command| command == "mcp") && words.any(|word| word == "--json")
}

/// Returns the error message on one line, without usage and hints.
fn format_error_message(error: &clap::Error) -> String {
    let rendered_error = error.render().to_string();
    let text = rendered_error
        .strip_prefix("error: ")
        .unwrap_or(&rendered_error);
    let message = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<_> = message.lines().map(str::trim).collect();
    lines.join(" ")
}
