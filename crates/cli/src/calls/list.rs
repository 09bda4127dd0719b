use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolCallEntry, route};

use super::super::table::{table, user};
use super::{CliError, Filter, tree};

/// `pillion calls list`
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of calls
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only calls after this one in the list: the value of `next` in the output of `--json`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Shows calls below the call that made them
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let mut query = self.filter.query();
        query.push(("limit", self.limit.to_string()));
        query.extend(self.after.map(|after| ("after", after)));
        let request = client.request(route::LIST_TOOL_CALLS, []);
        let response = request.query(query).send()?;
        if self.json {
            super::print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = super::decode(&response)?;
        let rows: Vec<_> = match self.tree {
            true => tree::rows(&list.calls, row),
            false => list.calls.iter().map(row).collect(),
        };
        let heads = [
            "STARTED",
            "STATUS",
            "TOOL",
            "USER",
            "PRINCIPAL",
            "TOOK",
            "ID",
        ];
        super::print(&table(&heads, &rows))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(call: &ToolCallEntry) -> [String; 7] {
    let status = match &call.error_code {
        Some(code) => format!("{} ({code})", call.status),
        None => call.status.clone(),
    };
    [
        call.started_at.clone(),
        status,
        call.tool_name.clone(),
        user(call.user.as_deref(), call.user_is_verified),
        call.principal.clone().unwrap_or_default(),
        call.duration_ms
            .map(|ms| format!("{ms:.1} ms"))
            .unwrap_or_default(),
        call.id.clone(),
    ]
}
