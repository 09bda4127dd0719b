use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolCallEntry, route};

use super::{CallFilterOptions, tree};
use crate::dispatch::{CommandResult, RunCommand};
use crate::output::JsonOption;
use crate::table::{table, user};

/// Lists the recorded calls, the newest first
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion calls list --status error --limit 5",
    "pillion calls list --tool calculator --from 2026-11-21T18:00:00Z --json",
])]
pub(crate) struct ListCalls {
    #[command(flatten)]
    filter: CallFilterOptions,
    /// Maximum number of calls
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only calls after this one in the list: the value of `next` in the output of `--json`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Shows calls below the call that made them
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ListCalls {
    fn run(self, client: &Client) -> CommandResult {
        let mut query = self.filter.into_query();
        query.push(("limit", self.limit.to_string()));
        query.extend(self.after.map(|after| ("after", after)));
        let request = client.request(route::LIST_TOOL_CALLS, []);
        let response = request.query(query).send()?;
        self.output.print(&response, |list| {
            let rows = if self.tree {
                tree::rows(&list.calls, row)
            } else {
                list.calls.iter().map(row).collect()
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
            table(heads, rows)
        })
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
