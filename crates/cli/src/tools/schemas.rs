use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::route;

use super::super::CliError;

/// `pillion tools schemas`
#[derive(Debug, Args)]
pub(super) struct Schemas {
    /// Only the tools of this category
    #[arg(long)]
    category: Option<String>,
}

impl Schemas {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let request = client.request(route::LIST_SCHEMAS, []);
        let request = request.query(self.category.map(|category| ("category", category)));
        let list = request.send()?.decode()?;
        let schemas = serde_json::to_string_pretty(&list.schemas).map_err(CliError::Answer)?;
        super::print_json(&schemas)?;
        super::warn_of_unavailable(&list.unavailable_servers);
        Ok(ExitCode::SUCCESS)
    }
}
