use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolUsage, route};

use super::super::table::table;
use super::{CliError, Filter};

/// `pillion calls stats`
#[derive(Debug, Args)]
pub(super) struct Statistics {
    #[command(flatten)]
    filter: Filter,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Statistics {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let request = client.request(route::TOOL_CALL_STATISTICS, []);
        let response = request.query(self.filter.query()).send()?;
        if self.json {
            super::print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let answer = super::decode(&response)?;
        let rows: Vec<_> = answer.tools.iter().map(row).collect();
        let heads = ["TOOL", "SERVER", "CALLS", "SUCCESS", "P50", "P95", "P99"];
        super::print(&table(&heads, &rows))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(tool: &ToolUsage) -> [String; 7] {
    let time = |ms: Option<f64>| ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default();
    let rate = tool
        .success_rate
        .map(|rate| format!("{:.1} %", rate * 100.0));
    [
        tool.tool_name.clone(),
        tool.server_name.clone().unwrap_or_default(),
        tool.calls.to_string(),
        rate.unwrap_or_default(),
        time(tool.p50_ms),
        time(tool.p95_ms),
        time(tool.p99_ms),
    ]
}
