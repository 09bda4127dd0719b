use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolUsage, route};

use super::CallFilterOptions;
use crate::dispatch::{CommandResult, RunCommand};
use crate::output::JsonOption;
use crate::table::table;

/// Shows counts, success rate and latency of each tool
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion calls stats",
    "pillion calls stats --server weather",
])]
pub(crate) struct CallStatistics {
    #[command(flatten)]
    filter: CallFilterOptions,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for CallStatistics {
    fn run(self, client: &Client) -> CommandResult {
        let request = client.request(route::TOOL_CALL_STATISTICS, []);
        let response = request.query(self.filter.into_query()).send()?;
        self.output.print(&response, |statistics| {
            let heads = ["TOOL", "SERVER", "CALLS", "SUCCESS", "P50", "P95", "P99"];
            table(heads, statistics.tools.iter().map(row))
        })
    }
}

fn row(tool: &ToolUsage) -> [String; 7] {
    let time = |ms: Option<f64>| ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default();
    let rate = tool.success_rate;
    [
        tool.tool_name.clone(),
        tool.server_name.clone().unwrap_or_default(),
        tool.calls.to_string(),
        rate.map(|rate| format!("{:.1} %", rate * 100.0))
            .unwrap_or_default(),
        time(tool.p50_ms),
        time(tool.p95_ms),
        time(tool.p99_ms),
    ]
}
