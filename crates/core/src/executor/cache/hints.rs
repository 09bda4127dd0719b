use std::time::Duration;

use serde_json::Value;

use super::config::{CacheRule, CacheScope};
use crate::tool::ToolOutput;

/// Maximum time for which a result is cached, whatever the server's hint says.
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// Reads the cache hints of a `CallToolResult` (`ttlMs` and `cacheScope`, as in MCP 2026-07-28,
/// "Caching"). Returns `None` for a result without hints, and for a result that does not complete
/// its call.
pub(super) fn parse(output: &ToolOutput) -> Option<CacheRule> {
    let milliseconds = output.result.get("ttlMs")?.as_f64()?;
    if !completes_call(output) {
        return None;
    }
    let ttl = Duration::try_from_secs_f64(milliseconds / 1000.0).ok()?;
    let is_public = output.result.get("cacheScope").and_then(Value::as_str) == Some("public");
    let scope = if is_public {
        CacheScope::Public
    } else {
        CacheScope::Private
    };
    (!ttl.is_zero()).then(|| CacheRule {
        ttl: ttl.min(MAX_TTL),
        scope,
    })
}

/// Returns whether a result completes its call, rather than requesting input from the client.
pub(super) fn completes_call(output: &ToolOutput) -> bool {
    let result_type = output.result.get("resultType").and_then(Value::as_str);
    result_type.is_none_or(|result_type| result_type == "complete")
}
