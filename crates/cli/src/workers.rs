use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{WorkerEntry, route};

use super::table::table;
use super::{CliError, SocketOption, decode, print, print_json};

/// `pillion workers`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion workers
  pillion workers --json | jq '.workers[].tools'")]
pub(super) struct Workers {
    #[command(flatten)]
    socket: SocketOption,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Workers {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = Client::new(self.socket.path());
        let response = client.request(route::LIST_WORKERS, []).send()?;
        if self.json {
            print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = decode(&response)?;
        let rows: Vec<_> = list.workers.iter().map(row).collect();
        print(&table(
            &["ID", "NAME", "PROCESS", "STATUS", "CALLS", "TOOLS"],
            &rows,
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(worker: &WorkerEntry) -> [String; 6] {
    let status = if worker.busy { "busy" } else { "ready" };
    [
        worker.id.to_string(),
        worker.name.clone(),
        worker
            .pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        status.to_owned(),
        worker.calls.to_string(),
        worker.tools.join(" "),
    ]
}
