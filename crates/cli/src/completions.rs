use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::{CliError, command, print};

/// `pillion completions`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion completions bash > ~/.local/share/bash-completion/completions/pillion
  pillion completions zsh > ~/.zfunc/_pillion
  pillion completions fish > ~/.config/fish/completions/pillion.fish")]
pub(super) struct Completions {
    /// The shell
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let shell = match self.shell {
            ShellName::Bash => Shell::Bash,
            ShellName::Zsh => Shell::Zsh,
            ShellName::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "pillion", &mut script);
        print(String::from_utf8_lossy(&script).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}
