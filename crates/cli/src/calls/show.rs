use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::ToolCallResponse;

use super::CliError;

/// `pillion calls show`
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The call's ID
    id: String,
}

impl Show {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let body = client.raw().tool_call(&self.id);
        let body =
            body.map_err(|error| CliError::with_id(error, &self.id, "pillion calls list"))?;
        let answer: ToolCallResponse = super::decode(&body)?;
        // A raw value would be printed on one line.
        let call = serde_json::to_value(&answer.call).map_err(CliError::Answer)?;
        let text = serde_json::to_string_pretty(&call).map_err(CliError::Answer)?;
        super::print_json(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
