mod list;
mod show;
mod statistics;
mod tree;

use clap::Args;
use pillion_client::Client;

use super::duration::point_in_time;
use super::sidecar::query;

commands! {
    /// Shows the call log of a running sidecar
    #[command(after_help = examples!["pillion calls list", "pillion calls stats"])]
    pub(super) enum CallsCommand: Client {
        List(list::ListCalls),
        Show(show::ShowCall),
        Stats(statistics::CallStatistics),
    }
}

/// The filter of the call log.
#[derive(Debug, Args)]
struct CallFilterOptions {
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

impl CallFilterOptions {
    /// Returns the filter as query parameters.
    fn into_query(self) -> Vec<(&'static str, String)> {
        query([
            ("server", self.server),
            ("tool", self.tool),
            ("user", self.user),
            ("parent", self.parent),
            ("status", self.status),
            ("from", self.from.as_deref().map(point_in_time)),
            ("until", self.until.as_deref().map(point_in_time)),
        ])
    }
}
