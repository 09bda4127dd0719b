use clap::Args;
use pillion_client::Client;
use pillion_wire::{WorkerEntry, route};

use super::dispatch::{CommandResult, RunCommand};
use super::output::JsonOption;
use super::table::{format_table, or_dash};

/// Lists the workers of a running sidecar: processes that offer their own tools
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion workers",
    "pillion workers --json | jq '.workers[].tools'",
])]
pub(super) struct WorkersCommand {
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for WorkersCommand {
    fn run(self, client: &Client) -> CommandResult {
        let response = client.request(route::LIST_WORKERS, []).send()?;
        self.output.print(&response, |list| {
            let headings = ["ID", "NAME", "PROCESS", "STATUS", "CALLS", "TOOLS"];
            format_table(headings, list.workers.iter().map(format_worker_row))
        })
    }
}

fn format_worker_row(worker: &WorkerEntry) -> [String; 6] {
    let status = if worker.busy { "busy" } else { "ready" };
    [
        worker.id.to_string(),
        worker.name.clone(),
        or_dash(worker.pid),
        status.to_owned(),
        worker.calls.to_string(),
        worker.tools.join(" "),
    ]
}
