use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolKeyEntry, ToolKeyList};

use crate::providers::key_from_input;
use crate::table::table;
use crate::{CliError, decode, print, print_json};

/// `pillion tools keys`
#[derive(Debug, Args)]
pub(super) struct Keys {
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

/// `pillion tools set-key` and `remove-key`
#[derive(Debug, Args)]
pub(super) struct Named {
    /// The tool's name
    name: String,
}

impl Keys {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let body = client.raw().tool_keys()?;
        if self.json {
            print_json(&String::from_utf8_lossy(&body))?;
            return Ok(ExitCode::SUCCESS);
        }
        let list: ToolKeyList = decode(&body)?;
        let row = |entry: &ToolKeyEntry| {
            let ToolKeyEntry { tool, service, key } = entry.clone();
            [tool, service, key]
        };
        let rows: Vec<_> = list.tools.iter().map(row).collect();
        print(&table(&["TOOL", "SERVICE", "KEY"], &rows))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Named {
    pub(super) fn set(self, client: &Client) -> Result<ExitCode, CliError> {
        client.raw().set_tool_key(&self.name, &key_from_input()?)?;
        print(&format!("stored the key of {} in the vault", self.name))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn remove(self, client: &Client) -> Result<ExitCode, CliError> {
        client.raw().remove_tool_key(&self.name)?;
        print(&format!("removed the key of {} from the vault", self.name))?;
        Ok(ExitCode::SUCCESS)
    }
}
