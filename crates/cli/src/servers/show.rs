use pillion_wire::{ServerEntry, ServerRateLimit};

use super::list::address;
use super::{ServerArgument, ServersContext};
use crate::dispatch::CommandResult;
use crate::output::{print_pretty, print_result};
use crate::table::or_dash;
use pillion_gateway::pins::visible_line;

/// `pillion servers show`
pub(super) fn show(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    let server = context.find(&argument.name)?;
    if context.output.json {
        return print_pretty(&server);
    }
    let policy = |text: Option<&str>| text.unwrap_or("default").to_owned();
    let headers = (!server.headers.is_empty()).then(|| server.headers.join(", "));
    let max_concurrent = server.max_concurrent.map(|max| max.to_string());
    let protocol = server.protocol_version.as_deref().unwrap_or("newest");
    let facts = [
        ("name", server.name.clone()),
        ("id", server.id.clone()),
        ("description", or_dash(server.description.as_deref())),
        ("origin", server.origin.clone()),
        ("address", address(&server)),
        ("transport", server.transport.clone()),
        ("handshake", server.handshake.clone()),
        ("protocol", protocol.to_owned()),
        ("authentication", server.authentication.kind.clone()),
        ("credential", server.credential.clone()),
        ("headers", or_dash(headers)),
        ("timeout", format!("{} ms", server.timeout)),
        ("retry attempts", server.retry_attempts.to_string()),
        ("tool prefix", server.tool_prefix.clone()),
        ("approval", policy(server.require_approval.as_deref())),
        ("pin", policy(server.pin.as_deref())),
        ("new tools", policy(server.new_tools.as_deref())),
        (
            "rate limit",
            or_dash(server.rate_limit.map(rate_limit_text)),
        ),
        ("max concurrent", policy(max_concurrent.as_deref())),
        ("enabled", server.enabled.to_string()),
        ("status", server.status.clone()),
        ("error", or_dash(server.error.as_deref())),
        ("tools", server.tool_count.to_string()),
        (
            "calls",
            format!("{}, {} failed", server.calls.total, server.calls.failed),
        ),
        (
            "last connected",
            or_dash(server.last_connected_at.as_deref()),
        ),
        ("created", or_dash(server.created_at.as_deref())),
        ("updated", or_dash(server.updated_at.as_deref())),
    ];
    let lines: Vec<_> = facts
        .into_iter()
        .map(|(name, value)| format!("{name:<15} {}", visible_line(&value)))
        .collect();
    print_result(&lines.join("\n"))
}

fn rate_limit_text(limit: ServerRateLimit) -> String {
    let windows = [
        (limit.per_minute, "minute"),
        (limit.per_hour, "hour"),
        (limit.per_day, "day"),
    ];
    let limits: Vec<_> = windows
        .into_iter()
        .filter_map(|(calls, window)| Some(format!("{} per {window}", calls?)))
        .collect();
    limits.join(", ")
}

/// Returns a one-line summary of a server.
pub(super) fn summary_line(server: &ServerEntry) -> String {
    let state = if server.enabled {
        "enabled"
    } else {
        "disabled"
    };
    let name = visible_line(&server.name);
    format!("{name}: {state}, {}, id {}", address(server), server.id)
}
