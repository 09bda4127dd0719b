use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{CliError, print, print_diagnostic};
use pillion_config::{Config, ConfigFile};
use pillion_sidecar::daemon::DaemonError;
use pillion_sidecar::reload::resolve_access;

/// `pillion check`
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The configuration file (TOML); without it, the defaults and the environment apply
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Check {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let config = Config::load(self.config.as_deref(), std::env::vars_os())?;
        // Checks the users, groups and tokens of the configuration. Only the daemon reads the
        // tokens of the store.
        resolve_access(&config, None).map_err(DaemonError::Access)?;
        let vault = config.vault.key();
        vault.map_err(|error| CliError::Usage(format!("vault: {error}")))?;
        for warning in config.warnings(|name| std::env::var(name).ok()) {
            print_diagnostic(&format!("warning: {warning}"));
        }
        let models_file = config.models_file.as_ref().map(ConfigFile::path);
        let files = self.config.as_deref().into_iter().chain(models_file);
        let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
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
