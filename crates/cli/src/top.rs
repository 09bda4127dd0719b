use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use pillion_client::Client;
use pillion_wire::{Status, ToolStatus, route};
use serde_json::json;

use super::{CliError, SocketOption, print, print_json, report};

/// Clears the terminal and moves the cursor to the first line.
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";

/// `pillion top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion top
  pillion top --interval-ms 1000 --count 10 --json")]
pub(super) struct Top {
    #[command(flatten)]
    socket: SocketOption,
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

impl Top {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = Client::new(self.socket.path());
        let interval = Duration::from_millis(self.interval_ms);
        let clear = if std::io::stdout().is_terminal() {
            CLEAR_SCREEN
        } else {
            ""
        };
        let mut before = StatusSample::now(&client)?;
        let mut looks = 0;
        while self.count.is_none_or(|count| looks < count) {
            std::thread::sleep(interval);
            let look = StatusSample::now(&client)?;
            let rates = look.calls_per_second_since(&before);
            if self.json {
                print_json(&look.to_json(&rates))?;
            } else {
                let table = report::busy_tools(&busiest(&look.status.tools, &rates));
                print(&format!(
                    "{clear}{}\n{table}\n",
                    report::summary(&look.status)
                ))?;
            }
            before = look;
            looks += 1;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The sidecar's status at one point in time.
struct StatusSample {
    at: Instant,
    status: Status,
}

impl StatusSample {
    fn now(client: &Client) -> Result<Self, CliError> {
        let status = client.fetch(route::STATUS)?;
        let at = Instant::now();
        Ok(Self { at, status })
    }

    /// Returns the rate of finished calls per second of each tool. The counters of a restarted
    /// sidecar start at zero.
    fn calls_per_second_since(&self, before: &Self) -> Vec<f64> {
        let old = before.status.tools.iter();
        let old: HashMap<_, _> = old.map(|tool| (&tool.name, tool.calls)).collect();
        let is_same = before.status.pid == self.status.pid;
        let seconds = (self.at - before.at).as_secs_f64();
        let tools = self.status.tools.iter();
        let rates = tools.map(|tool| {
            let before = old.get(&tool.name).copied().filter(|_| is_same);
            let calls = tool.calls.saturating_sub(before.unwrap_or_default());
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let calls = calls as f64;
            calls / seconds
        });
        rates.collect()
    }

    fn to_json(&self, rates: &[f64]) -> String {
        let mut look = json!(self.status);
        let tools = look["tools"].as_array_mut().into_iter().flatten();
        for (tool, rate) in tools.zip(rates) {
            tool["calls_per_second"] = json!((rate * 1000.0).round() / 1000.0);
        }
        look.to_string()
    }
}

/// Returns the tools by current rate, then by number of calls.
fn busiest(tools: &[ToolStatus], rates: &[f64]) -> Vec<(ToolStatus, f64)> {
    let mut pairs: Vec<_> = tools.iter().cloned().zip(rates.iter().copied()).collect();
    pairs.sort_by(|(one, rate), (other, other_rate)| {
        let by_rate = other_rate.total_cmp(rate);
        by_rate.then(other.calls.cmp(&one.calls))
    });
    pairs
}
