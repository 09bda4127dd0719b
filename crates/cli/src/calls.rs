use std::collections::{HashMap, HashSet};

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolCallEntry, ToolUsage, route};

use crate::dispatch::{CommandResult, RunCommand};
use crate::duration::parse_point_in_time;
use crate::error::CliError;
use crate::output::{JsonOption, print_pretty};
use crate::sidecar::{build_query_parameters, decode};
use crate::table::{format_table, format_user};

commands! {
    /// Shows the call log of a running sidecar
    #[command(after_help = examples!["pillion calls list", "pillion calls stats"])]
    pub(super) enum CallsCommand: Client {
        List(ListCalls),
        Show(ShowCall),
        Stats(CallStatistics),
    }
}

/// The filter of the call log.
#[derive(Debug, Args)]
struct CallFilterOptions {
    /// Only calls of this MCP server's tools
    #[arg(long, value_name = "LABEL")]
    server: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls on behalf of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only calls that the call with this ID made
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Only calls with this status
    #[arg(long, value_parser = ["pending", "running", "success", "error", "cancelled", "interrupted", "denied"])]
    status: Option<String>,
    /// Only calls that began at this time or later: a time such as 2026-11-21T18:00:00Z, or an age
    /// such as 30m, 2h or 7d
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only calls that began before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl CallFilterOptions {
    /// Returns the filter as query parameters.
    fn into_query(self) -> Vec<(&'static str, String)> {
        build_query_parameters([
            ("server", self.server),
            ("tool", self.tool),
            ("user", self.user),
            ("parent", self.parent),
            ("status", self.status),
            ("from", self.from.as_deref().map(parse_point_in_time)),
            ("until", self.until.as_deref().map(parse_point_in_time)),
        ])
    }
}

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
    /// Continues the list after this position: the value of `next` in the previous output of
    /// `--json`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Shows each call below the call that made it
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
                format_tree_rows(&list.calls, format_call_row)
            } else {
                list.calls.iter().map(format_call_row).collect()
            };
            let headings = [
                "STARTED",
                "STATUS",
                "TOOL",
                "USER",
                "PRINCIPAL",
                "TOOK",
                "ID",
            ];
            format_table(headings, rows)
        })
    }
}

fn format_call_row(call: &ToolCallEntry) -> [String; 7] {
    let status = match &call.error_code {
        Some(code) => format!("{} ({code})", call.status),
        None => call.status.clone(),
    };
    let duration = call.duration_ms.map(|ms| format!("{ms:.1} ms"));
    [
        call.started_at.clone(),
        status,
        call.tool_name.clone(),
        format_user(call.user.as_deref(), call.user_is_verified),
        call.principal.clone().unwrap_or_default(),
        duration.unwrap_or_default(),
        call.id.clone(),
    ]
}

/// The index of the column with the tool name.
const TOOL_COLUMN: usize = 2;

/// Returns one table row per call. Each nested call is indented below its parent call. Calls
/// without a parent keep their order; the calls of one parent are sorted by start time. A call
/// whose parent is not in the list is treated as a call without a parent.
fn format_tree_rows(
    calls: &[ToolCallEntry],
    format_row: impl Fn(&ToolCallEntry) -> [String; 7],
) -> Vec<[String; 7]> {
    let listed_ids: HashSet<_> = calls.iter().map(|call| call.id.as_str()).collect();
    let mut calls_by_parent: HashMap<&str, Vec<&ToolCallEntry>> = HashMap::new();
    let mut root_calls = Vec::new();
    for call in calls {
        let parent = call.parent_id.as_deref();
        match parent.filter(|id| listed_ids.contains(id)) {
            Some(parent) => calls_by_parent.entry(parent).or_default().push(call),
            None => root_calls.push(call),
        }
    }
    let mut rows = Vec::with_capacity(calls.len());
    // The calls that are not shown yet. The last element is shown next.
    let mut pending_calls: Vec<_> = root_calls.into_iter().rev().map(|call| (0, call)).collect();
    while let Some((depth, call)) = pending_calls.pop() {
        let mut cells = format_row(call);
        if depth > 0 {
            cells[TOOL_COLUMN] = format!("{}└ {}", "  ".repeat(depth - 1), cells[TOOL_COLUMN]);
        }
        rows.push(cells);
        // The oldest child call ends up at the end of the vector, because the list is newest first.
        let child_calls = calls_by_parent.remove(call.id.as_str()).unwrap_or_default();
        pending_calls.extend(child_calls.into_iter().map(|child| (depth + 1, child)));
    }
    rows
}

/// Shows one call with its arguments and its result, as JSON
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion calls show 01a20126-6441-7502-8f83-e6cc45d24570"])]
pub(crate) struct ShowCall {
    /// The call's ID
    id: String,
}

impl RunCommand<Client> for ShowCall {
    fn run(self, client: &Client) -> CommandResult {
        let response = client
            .request(route::SHOW_TOOL_CALL, [&self.id])
            .send()
            .map_err(|error| CliError::with_list_command(error, "pillion calls list"))?;
        print_pretty(&decode(&response)?.call)
    }
}

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
            let headings = ["TOOL", "SERVER", "CALLS", "SUCCESS", "P50", "P95", "P99"];
            format_table(headings, statistics.tools.iter().map(format_usage_row))
        })
    }
}

fn format_usage_row(tool: &ToolUsage) -> [String; 7] {
    let format_time = |ms: Option<f64>| ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default();
    let format_percent = |rate: f64| format!("{:.1} %", rate * 100.0);
    let success_rate = tool.success_rate.map(format_percent);
    [
        tool.tool_name.clone(),
        tool.server_name.clone().unwrap_or_default(),
        tool.calls.to_string(),
        success_rate.unwrap_or_default(),
        format_time(tool.p50_ms),
        format_time(tool.p95_ms),
        format_time(tool.p99_ms),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn p_calls_are_listed_below_their_parent_call() {
        let call = |id: &str, parent: Option<&str>| {
            let entry = json!({
                "id": id, "toolName": id, "parentId": parent, "arguments": {}, "status": "success",
                "startedAt": "",
            });
            serde_json::from_value::<ToolCallEntry>(entry).unwrap()
        };
        // The calls have the order of the list: newest first.
        let calls = [
            call("b2", Some("b")),
            call("a3", Some("a1")),
            call("b1", Some("b")),
            call("b", None),
            call("a2", Some("a")),
            call("lost", Some("elsewhere")),
            call("a1", Some("a")),
            call("a", None),
        ];
        let id_row = |call: &ToolCallEntry| {
            let mut row: [String; 7] = Default::default();
            row[TOOL_COLUMN].clone_from(&call.tool_name);
            row
        };
        let rows = format_tree_rows(&calls, id_row);
        let tool_names: Vec<_> = rows.iter().map(|row| row[TOOL_COLUMN].as_str()).collect();
        let expected = ["b", "└ b1", "└ b2", "lost", "a", "└ a1", "  └ a3", "└ a2"];
        assert_eq!(tool_names, expected);
    }
}
