use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::route;

use super::CliError;

/// `pillion approvals show`
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The approval's ID, or its first 8 or more characters if the approval is pending
    id: String,
    /// Prints the sidecar's response as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let id = super::full_id(client, self.id)?;
        let found = client.request(route::SHOW_APPROVAL, [&id]).send();
        let response = found.map_err(|error| super::unknown_id(error, &id))?;
        if self.json {
            super::print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let answer = super::decode(&response)?;
        // A raw value would be printed on one line.
        let approval = serde_json::to_value(&answer.approval).map_err(CliError::Answer)?;
        let text = serde_json::to_string_pretty(&approval).map_err(CliError::Answer)?;
        super::print_json(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
