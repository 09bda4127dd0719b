use std::path::PathBuf;

use clap::Args;

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::output::{print_diagnostic, print_result};
use pillion_sidecar::daemon::DaemonError;
use pillion_sidecar::reload::Source;

/// Checks a configuration as `pillion serve` reads it, and reports errors and warnings
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion check --config /etc/pillion/pillion.toml",
    "pillion check",
])]
pub(super) struct CheckCommand {
    /// The configuration file (TOML); without it, the defaults and the environment apply
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RunCommand<()> for CheckCommand {
    fn run(self, (): &()) -> CommandResult {
        let source = Source {
            file: self.config,
            socket: None,
        };
        let mut loaded_config = source.load()?;
        // Checks the users, groups and tokens of the configuration. Tokens in the store are not
        // checked, because only the sidecar reads them.
        loaded_config
            .resolve_access(None)
            .map_err(DaemonError::Access)?;
        let config = &loaded_config.config;
        let key = config.vault.key();
        key.map_err(|error| CliError::Usage(format!("vault: {error}")))?;
        for warning in loaded_config.warnings() {
            print_diagnostic(&format!("warning: {warning}"));
        }
        let files = config.file.iter().chain(&config.models_file);
        let paths: Vec<_> = files
            .map(|file| file.path().display().to_string())
            .collect();
        let sources = if paths.is_empty() {
            "the environment".to_owned()
        } else {
            paths.join(" and ")
        };
        print_result(&format!(
            "{sources} can be used (MCP servers: {}, providers: {}, models: {})",
            config.mcp_servers.len(),
            config.providers.len(),
            config.models.len()
        ))
    }
}
