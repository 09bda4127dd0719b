//! How commands are declared: a struct of arguments that implements [`RunCommand`], or an enum of
//! `commands!` whose variants hold such structs.

use std::process::ExitCode;

use super::error::CliError;

/// The exit code of a command, or why the command failed.
pub(crate) type CommandResult = Result<ExitCode, CliError>;

/// A command with parsed arguments. `C` is what the command needs besides its arguments, such as a
/// client of the sidecar.
pub(crate) trait RunCommand<C> {
    fn run(self, context: &C) -> CommandResult;
}

impl<C, T: RunCommand<C>> RunCommand<C> for Box<T> {
    fn run(self, context: &C) -> CommandResult {
        (*self).run(context)
    }
}

/// Declares the commands below a command: `enum Name: Context { Command(Arguments), ... }`. The
/// help text of a command is the documentation of its arguments, or of its variant. A variant can
/// be followed by `=> function`: `function` then runs the command instead of [`RunCommand::run`].
macro_rules! commands {
    (@run $arguments:ident, $context:ident) => {
        $crate::dispatch::RunCommand::run($arguments, $context)
    };
    (@run $arguments:ident, $context:ident, $function:path) => {
        $function(&$arguments, $context)
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident: $context:ty {
            $($(#[$variant_attribute:meta])* $variant:ident($arguments:ty) $(=> $function:path)?,)+
        }
    ) => {
        #[derive(Debug, clap::Subcommand)]
        $(#[$attribute])*
        $visibility enum $name {
            $($(#[$variant_attribute])* $variant($arguments),)+
        }

        // These methods are the same as those that clap derives for a struct whose only field has
        // the attribute `#[command(subcommand)]`.
        impl clap::Args for $name {
            fn augment_args(command: clap::Command) -> clap::Command {
                <Self as clap::Subcommand>::augment_subcommands(command)
                    .subcommand_required(true)
                    .arg_required_else_help(true)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                <Self as clap::Subcommand>::augment_subcommands_for_update(command)
            }
        }

        impl $crate::dispatch::RunCommand<$context> for $name {
            fn run(self, context: &$context) -> $crate::dispatch::CommandResult {
                match self {
                    $(Self::$variant(arguments) => {
                        commands!(@run arguments, context $(, $function)?)
                    })+
                }
            }
        }
    };
}
