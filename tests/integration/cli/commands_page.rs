//! `docs/reference/commands.md` is the `--help` text of each command. `PILLION_WRITE_DOCS=1` writes
//! the page.

use std::fmt::Write as _;
use std::fs;

use clap::Command;
use pillion_testkit::checkout;

use super::man::subcommands;

const INTRODUCTION: &str = "# Commands

This page is generated: each section is what `--help` prints. [Command line](cli.md) explains exit codes, output and the
path of the socket.
";

/// The beginning of the last line of each help text.
const EXIT_CODES: &str = "Exit codes: 0 on success, 1 on failure, 2 if";

fn page() -> String {
    let mut command = without_help(pillion::command().disable_help_subcommand(true));
    command.build();
    let mut page = INTRODUCTION.to_owned();
    add(&command, &mut page);
    page
}

/// Removes the option `--help`, which every command has.
fn without_help(command: Command) -> Command {
    command
        .disable_help_flag(true)
        .mut_subcommands(without_help)
}

fn add(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<_> = help
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.starts_with(EXIT_CODES))
        .collect();
    let text = lines.join("\n");
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", text.trim_end()).unwrap();
    for below in subcommands(command) {
        add(below, page);
    }
}

#[test]
fn the_page_of_commands_matches_the_help_of_the_program() {
    let path = checkout().join("docs/reference/commands.md");
    let expected = page();
    if std::env::var_os("PILLION_WRITE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(
        written == expected,
        "docs/reference/commands.md is not what --help says: PILLION_WRITE_DOCS=1 cargo test"
    );
}
