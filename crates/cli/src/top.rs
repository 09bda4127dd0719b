use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use pillion_client::{Client, ClientError};
use pillion_wire::{Status, ToolStatus, route};
use serde_json::json;

use super::dispatch::{CommandResult, RunCommand};
use super::output::{print, print_json};
use super::report;

/// Clears the terminal and moves the cursor to the first line.
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";

/// Shows the activity of a running sidecar, continuously
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion top",
    "pillion top --interval-ms 1000 --count 10 --json",
])]
pub(super) struct TopCommand {
    /// Time between two updates, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    interval_ms: u64,
    /// Exits after this many updates [default: continues until interrupted]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Prints one line of JSON per update
    #[arg(long)]
    json: bool,
}

impl RunCommand<Client> for TopCommand {
    fn run(self, client: &Client) -> CommandResult {
        let interval = Duration::from_millis(self.interval_ms);
        let clear_sequence = if std::io::stdout().is_terminal() {
            CLEAR_SCREEN
        } else {
            ""
        };
        let mut previous_sample = StatusSample::take(client)?;
        let mut update_count = 0;
        while self.count.is_none_or(|count| update_count < count) {
            std::thread::sleep(interval);
            let sample = StatusSample::take(client)?;
            let rates = sample.compute_call_rates(&previous_sample);
            if self.json {
                print_json(&sample.to_json(&rates))?;
            } else {
                let summary = report::format_summary(&sample.status);
                let table = report::format_busy_tools(&sort_by_rate(&sample.status.tools, &rates));
                print(&format!("{clear_sequence}{summary}\n{table}\n"))?;
            }
            previous_sample = sample;
            update_count += 1;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The sidecar's status at one point in time.
struct StatusSample {
    taken_at: Instant,
    status: Status,
}

impl StatusSample {
    fn take(client: &Client) -> Result<Self, ClientError> {
        let status = client.fetch(route::STATUS)?;
        let taken_at = Instant::now();
        Ok(Self { taken_at, status })
    }

    /// Returns each tool's rate of finished calls per second since `previous`. If the sidecar was
    /// restarted since then, the counters of `previous` are ignored, because the counters of a new
    /// process start at zero.
    fn compute_call_rates(&self, previous: &Self) -> Vec<f64> {
        let is_same_process = previous.status.pid == self.status.pid;
        let previous_call_counts: HashMap<_, _> = previous
            .status
            .tools
            .iter()
            .filter(|_| is_same_process)
            .map(|tool| (&tool.name, tool.calls))
            .collect();
        let seconds = (self.taken_at - previous.taken_at).as_secs_f64();
        let rates = self.status.tools.iter().map(|tool| {
            let old_call_count = previous_call_counts.get(&tool.name).copied();
            let new_call_count = tool
                .calls
                .saturating_sub(old_call_count.unwrap_or_default());
            #[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
            let calls = new_call_count as f64;
            calls / seconds
        });
        rates.collect()
    }

    fn to_json(&self, rates: &[f64]) -> String {
        let mut status = json!(self.status);
        let tools = status["tools"].as_array_mut().into_iter().flatten();
        for (tool, rate) in tools.zip(rates) {
            tool["calls_per_second"] = json!((rate * 1000.0).round() / 1000.0);
        }
        status.to_string()
    }
}

/// Returns the tools, sorted by current rate and then by number of calls, highest first.
fn sort_by_rate(tools: &[ToolStatus], rates: &[f64]) -> Vec<(ToolStatus, f64)> {
    let mut pairs: Vec<_> = tools.iter().cloned().zip(rates.iter().copied()).collect();
    pairs.sort_by(|(tool, rate), (other_tool, other_rate)| {
        let rate_order = other_rate.total_cmp(rate);
        rate_order.then(other_tool.calls.cmp(&tool.calls))
    });
    pairs
}
