mod list;
mod show;
mod statistics;
mod tree;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{CliError, SocketOption, decode, duration, print, print_json};

/// `pillion calls`
#[derive(Debug, Args)]
pub(super) struct Calls {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the recorded calls, the newest first
    List(list::List),
    /// Shows one call with its arguments and its result, as JSON
    Show(show::Show),
    /// Shows counts, success rate and latency of each tool
    Stats(statistics::Statistics),
}

/// The filter of the call log.
#[derive(Debug, Args)]
struct Filter {
    /// Only calls of tools of this MCP server
    #[arg(long, value_name = "LABEL")]
    server: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls on behalf of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only calls made by this call
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Only calls with this status
    #[arg(long, value_parser = ["pending", "running", "success", "error", "cancelled", "interrupted", "denied"])]
    status: Option<String>,
    /// Only calls since this time, such as 2026-11-21T18:00:00Z, or 30m, 2h or 7d for that long ago
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only calls before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Filter {
    /// Returns the filter as query parameters.
    fn query(&self) -> Vec<(&'static str, String)> {
        let from = self.from.as_deref().map(duration::point_in_time);
        let until = self.until.as_deref().map(duration::point_in_time);
        let filters = [
            ("server", &self.server),
            ("tool", &self.tool),
            ("user", &self.user),
            ("parent", &self.parent),
            ("status", &self.status),
            ("from", &from),
            ("until", &until),
        ];
        filters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.clone()?)))
            .collect()
    }
}

impl Calls {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(30));
        match self.command {
            Command::List(list) => list.apply(&client),
            Command::Show(show) => show.apply(&client),
            Command::Stats(statistics) => statistics.apply(&client),
        }
    }
}
