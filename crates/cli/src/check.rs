use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{CliError, print, print_diagnostic};
use pillion_sidecar::daemon::DaemonError;
use pillion_sidecar::reload::Source;

/// `pillion check`
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The configuration file (TOML); without it, the defaults and the environment apply
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Check {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let source = Source {
            file: self.config,
            socket: None,
        };
        let mut loaded = source.load()?;
        // Checks the users, groups and tokens of the configuration. Only the daemon reads the
        // tokens of the store.
        loaded.resolve_access(None).map_err(DaemonError::Access)?;
        let config = &loaded.config;
        let vault = config.vault.key();
        vault.map_err(|error| CliError::Usage(format!("vault: {error}")))?;
        for warning in loaded.warnings() {
            print_diagnostic(&format!("warning: {warning}"));
        }
        let files = config.file.iter().chain(&config.models_file);
        let files: Vec<_> = files
            .map(|file| file.path().display().to_string())
            .collect();
        let files = match files.is_empty() {
            true => "the environment".to_owned(),
            false => files.join(" and "),
        };
        print(&format!(
            "{files} can be used (MCP servers: {}, providers: {}, models: {})",
            config.mcp_servers.len(),
            config.providers.len(),
            config.models.len()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
