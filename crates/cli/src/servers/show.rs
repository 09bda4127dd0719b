use std::process::ExitCode;

use pillion_wire::{ServerEntry, ServerRateLimit};

use super::super::{CliError, print, print_json};
use super::Context;
use super::list::address_of;
use pillion_gateway::pins::visible_line;

/// `pillion servers show`
pub(super) fn apply(context: &Context, name: &str) -> Result<ExitCode, CliError> {
    let server = context.find(name)?;
    if context.json {
        print_json(&serde_json::to_string_pretty(&server).map_err(CliError::Answer)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let none = || "-".to_owned();
    let text = |text: &Option<String>| text.clone().unwrap_or_else(none);
    let policy = |text: &Option<String>| text.clone().unwrap_or_else(|| "default".to_owned());
    let headers = if server.headers.is_empty() {
        none()
    } else {
        server.headers.join(", ")
    };
    let lines = [
        ("name", server.name.clone()),
        ("id", server.id.clone()),
        ("description", text(&server.description)),
        ("origin", server.origin.clone()),
        ("address", address_of(&server)),
        ("transport", server.transport.clone()),
        ("handshake", server.handshake.clone()),
        (
            "protocol",
            server
                .protocol_version
                .clone()
                .unwrap_or_else(|| "newest".to_owned()),
        ),
        ("authentication", server.authentication.kind.clone()),
        ("credential", server.credential.clone()),
        ("headers", headers),
        ("timeout", format!("{} ms", server.timeout)),
        ("retry attempts", server.retry_attempts.to_string()),
        ("tool prefix", server.tool_prefix.clone()),
        ("approval", policy(&server.require_approval)),
        ("pin", policy(&server.pin)),
        ("new tools", policy(&server.new_tools)),
        ("rate limit", server.rate_limit.map_or_else(none, limit)),
        (
            "max concurrent",
            policy(&server.max_concurrent.map(|limit| limit.to_string())),
        ),
        ("enabled", server.enabled.to_string()),
        ("status", server.status.clone()),
        ("error", text(&server.error)),
        ("tools", server.tool_count.to_string()),
        (
            "calls",
            format!("{}, {} failed", server.calls.total, server.calls.failed),
        ),
        ("last connected", text(&server.last_connected_at)),
        ("created", text(&server.created_at)),
        ("updated", text(&server.updated_at)),
    ];
    let lines: Vec<_> = lines
        .into_iter()
        .map(|(name, value)| format!("{name:<15} {}", visible_line(&value)))
        .collect();
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a rate limit as text.
fn limit(limit: ServerRateLimit) -> String {
    let windows = [
        (limit.per_minute, "minute"),
        (limit.per_hour, "hour"),
        (limit.per_day, "day"),
    ];
    let windows = windows.into_iter();
    let words = windows.filter_map(|(calls, window)| Some(format!("{} per {window}", calls?)));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns a one-line summary of a server.
pub(super) fn summary_line(server: &ServerEntry) -> String {
    let state = if server.enabled {
        "enabled"
    } else {
        "disabled"
    };
    let name = visible_line(&server.name);
    format!("{name}: {state}, {}, id {}", address_of(server), server.id)
}
