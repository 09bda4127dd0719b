//! The text at the end of each command's help: examples and exit codes.

use clap::Command;

/// Returns the examples section of a command's help, in the form of clap's `after_help`.
macro_rules! examples {
    ($($example:literal),+ $(,)?) => {
        concat!("Examples:", $("\n  ", $example),+)
    };
}

const EXIT_CODES: &str = "Exit codes: 0 on success, 1 on failure, 2 if the command line or the \
                          configuration is invalid.";

const MCP_EXIT_CODES: &str = "Exit codes: 0 on success, 1 if the tool or the server failed, 2 if \
                              the command line or the configuration is invalid, 130 after \
                              SIGINT, 143 after SIGTERM.";

/// Adds the exit codes to the help of every command.
pub(super) fn add_exit_codes(command: Command) -> Command {
    add_inherited_exit_codes(command, EXIT_CODES)
}

fn add_inherited_exit_codes(command: Command, inherited_exit_codes: &'static str) -> Command {
    let exit_codes = if command.get_name() == "mcp" {
        MCP_EXIT_CODES
    } else {
        inherited_exit_codes
    };
    let examples = command.get_after_help().cloned().unwrap_or_default();
    command
        .after_help(format!("{examples}\n\n{exit_codes}"))
        .mut_subcommands(|subcommand| add_inherited_exit_codes(subcommand, exit_codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit_commands(command: &Command, names: &str, visit: &mut impl FnMut(&str, &Command)) {
        visit(names, command);
        for subcommand in command.get_subcommands() {
            let names = format!("{names} {}", subcommand.get_name());
            if subcommand.get_name() != "help" {
                visit_commands(subcommand, names.trim_start(), visit);
            }
        }
    }

    /// Splits a line into words, like a shell.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![];
        let mut word = String::new();
        let mut is_quoted = false;
        for letter in line.chars().chain([' ']) {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.extend(Some(std::mem::take(&mut word))),
                letter => word.push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_has_a_description_an_example_and_exit_codes() {
        visit_commands(&super::super::command(), "", &mut |names, command| {
            let about = command.get_about().map(ToString::to_string);
            assert!(about.is_some_and(|about| !about.contains('\n')), "{names}");
            let after_help = command.get_after_help().map(ToString::to_string);
            let help = after_help.unwrap_or_default();
            assert!(help.contains("Examples:"), "{names}: no example");
            assert!(help.contains("Exit codes:"), "{names}: no exit codes");
        });
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        let (mut commands, mut examples) = (0, 0);
        visit_commands(&super::super::command(), "", &mut |names, command| {
            commands += 1;
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                let Some(example) = line.trim().strip_prefix("pillion ") else {
                    continue;
                };
                let end = example.find(['|', '<', '>']).unwrap_or(example.len());
                let arguments = [vec!["pillion".to_owned()], words(&example[..end])].concat();
                let matches = super::super::command().try_get_matches_from(arguments);
                assert!(matches.is_ok(), "{names}: {line}: {:?}", matches.err());
                examples += 1;
            }
        });
        let message = format!("{examples} examples, {commands} commands");
        assert!(examples >= commands, "{message}");
    }
}
