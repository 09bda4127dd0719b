use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::route;

use super::CliError;

/// `pillion calls show`
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The call's ID
    id: String,
}

impl Show {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let request = client.request(route::SHOW_TOOL_CALL, [&self.id]);
        let response = request
            .send()
            .map_err(|error| CliError::with_id(error, &self.id, "pillion calls list"))?;
        let answer = super::decode(&response)?;
        // A raw value would be printed on one line.
        let call = serde_json::to_value(&answer.call).map_err(CliError::Answer)?;
        let text = serde_json::to_string_pretty(&call).map_err(CliError::Answer)?;
        super::print_json(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
