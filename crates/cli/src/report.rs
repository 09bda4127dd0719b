//! Text output of the sidecar's status.

use std::fmt::Write;

use pillion_wire::{InvalidTool, Status, ToolStatus};

use super::table::{first_line, format_table, or_dash};
use pillion_gateway::pins::visible;

/// Returns a summary of the sidecar in a few lines.
pub(super) fn format_summary(status: &Status) -> String {
    let Status {
        version,
        status: state_name,
        pid,
        calls,
        process,
        ..
    } = status;
    let uptime = format_duration(status.uptime_seconds);
    let state = match state_name.as_str() {
        // A sidecar that has not finished discovery is shown as ready, too, because a call starts
        // the discovery that it needs.
        "starting" => "ready; discovery of MCP tools not finished",
        state_name => state_name,
    };
    let mut text = format!("pillion {version}, process {pid}: {state}, up {uptime}\n");
    let _ = writeln!(
        text,
        "calls: {} finished, {} failed, {} in flight, {} waiting; tools: {}; connections: {}; requests: {}",
        calls.total,
        calls.failed,
        calls.in_flight,
        calls.queued,
        status.tools_discovered,
        status.connections,
        status.requests
    );
    let _ = writeln!(
        text,
        "memory: {}; descriptors: {} of {}; threads: {}; CPU time: {}",
        or_dash(process.resident_bytes.map(format_bytes)),
        or_dash(process.open_descriptors),
        or_dash(process.max_descriptors),
        or_dash(process.threads),
        or_dash(process.cpu_seconds.map(|s| format!("{s:.1} s"))),
    );
    if let Some(error) = &status.store_error {
        let reason = "calls are rejected because they cannot be recorded";
        let _ = writeln!(text, "store: {reason}: {error}");
    }
    if let Some(reload) = &status.last_reload {
        let time = &reload.at;
        let _ = match reload.error.as_deref().map(visible) {
            None => writeln!(text, "configuration: reloaded at {time}"),
            Some(error) => writeln!(text, "configuration: reload rejected at {time}: {error}"),
        };
    }
    text
}

/// Formats an error of the directory of WebAssembly tools, of a file in the directory, or of a
/// tool's schema as one line.
pub(super) fn format_invalid_tool(invalid_tool: &InvalidTool) -> String {
    let (code, error) = (&invalid_tool.code, &invalid_tool.error);
    let subject = match &invalid_tool.tool {
        Some(tool) if code.contains("schema") => format!("Tool '{tool}'"),
        Some(tool) => format!("WebAssembly tool '{tool}'"),
        None => "The folder of WebAssembly tools".to_owned(),
    };
    let previous_version = if invalid_tool.previous_version_offered {
        "; the previous version stays available"
    } else {
        ""
    };
    visible(&format!("{subject}: {error} ({code}){previous_version}"))
}

/// Returns the table of called tools.
pub(super) fn format_tools(tools: &[ToolStatus]) -> String {
    let headings = ["TOOL", "CALLS", "FAILED", "P50 MS", "P99 MS"];
    format_table(headings, tools.iter().map(format_tool_row))
}

/// Returns the table of called tools, with the recent rate of finished calls per second.
pub(super) fn format_busy_tools(tools: &[(ToolStatus, f64)]) -> String {
    let rows = tools.iter().map(|(status, rate)| {
        let [name, calls, failed, p50, p99] = format_tool_row(status);
        [name, calls, failed, p50, p99, format!("{rate:.1}")]
    });
    let headings = ["TOOL", "CALLS", "FAILED", "P50 MS", "P99 MS", "CALLS/S"];
    format_table(headings, rows)
}

fn format_tool_row(tool: &ToolStatus) -> [String; 5] {
    let format_millis = |millis: Option<f64>| or_dash(millis.map(|ms| format!("{ms:.2}")));
    [
        tool.name.clone(),
        tool.calls.to_string(),
        tool.failed.to_string(),
        format_millis(tool.p50_ms),
        format_millis(tool.p99_ms),
    ]
}

pub(super) fn format_servers(status: &Status) -> String {
    let rows = status.servers.iter().map(|server| {
        [
            server.label.clone(),
            server.status.clone(),
            server.tools.to_string(),
            first_line(server.error.as_deref().unwrap_or_default()),
        ]
    });
    format_table(["SERVER", "STATUS", "TOOLS", "ERROR"], rows)
}

fn format_bytes(bytes: u64) -> String {
    let tenths_of_mib = bytes / (1024 * 1024 / 10);
    format!("{}.{} MiB", tenths_of_mib / 10, tenths_of_mib % 10)
}

fn format_duration(total_seconds: u64) -> String {
    let (total_minutes, seconds) = (total_seconds / 60, total_seconds % 60);
    let (total_hours, minutes) = (total_minutes / 60, total_minutes % 60);
    let (days, hours) = (total_hours / 24, total_hours % 24);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        let times = [59, 61, 3 * 3600 + 120, 49 * 3600].map(format_duration);
        assert_eq!(times, ["59 s", "1 min 1 s", "3 h 2 min", "2 d 1 h"]);
        assert_eq!(format_bytes(12 * 1024 * 1024 + 600 * 1024), "12.5 MiB");
    }
}
