use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::command;
use super::dispatch::{CommandResult, RunCommand};
use super::output::print_result;

/// Prints a shell completion script
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion completions bash > ~/.local/share/bash-completion/completions/pillion",
    "pillion completions zsh > ~/.zfunc/_pillion",
    "pillion completions fish > ~/.config/fish/completions/pillion.fish",
])]
pub(super) struct CompletionsCommand {
    /// The shell
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

impl RunCommand<()> for CompletionsCommand {
    fn run(self, (): &()) -> CommandResult {
        let shell = match self.shell {
            ShellName::Bash => Shell::Bash,
            ShellName::Zsh => Shell::Zsh,
            ShellName::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "pillion", &mut script);
        print_result(String::from_utf8_lossy(&script).trim_end())
    }
}
