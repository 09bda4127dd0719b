use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolKeyEntry, route};

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
        let response = client.request(route::LIST_TOOL_KEYS, []).send()?;
        if self.json {
            print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = decode(&response)?;
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
        let request = client.request(route::SET_TOOL_KEY, [&self.name]);
        request.send_bytes(&key_from_input()?)?;
        print(&format!("stored the key of {} in the vault", self.name))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn remove(self, client: &Client) -> Result<ExitCode, CliError> {
        let request = client.request(route::REMOVE_TOOL_KEY, [&self.name]);
        request.send()?;
        print(&format!("removed the key of {} from the vault", self.name))?;
        Ok(ExitCode::SUCCESS)
    }
}
