use clap::Args;
use pillion_client::Client;
use pillion_wire::route;

use super::warn_about_unavailable_servers;
use crate::dispatch::{CommandResult, RunCommand};
use crate::output::print_pretty;

/// Prints the tools' schemas in OpenAI's format, as JSON
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion tools schemas", "pillion tools schemas --category math"])]
pub(super) struct ToolSchemas {
    /// Only the tools of this category
    #[arg(long)]
    category: Option<String>,
}

impl RunCommand<Client> for ToolSchemas {
    fn run(self, client: &Client) -> CommandResult {
        let request = client.request(route::LIST_SCHEMAS, []);
        let category = self.category.map(|name| ("category", name));
        let list = request.query(category).send()?.decode()?;
        let exit_code = print_pretty(&list.schemas)?;
        warn_about_unavailable_servers(&list.unavailable_servers);
        Ok(exit_code)
    }
}
