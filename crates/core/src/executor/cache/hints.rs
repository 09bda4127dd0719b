use std::time::Duration;

use serde_json::Value;

use super::{CacheRule, CacheScope};
use crate::tool::ToolOutput;

/// The longest time that a result is kept, whatever its server says.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// What a `CallToolResult` says of how long it may be kept, and for whom (`ttlMs` and
/// `cacheScope` as in MCP 2026-07-28, "Caching"). A result that is not the end of its call, or
/// says nothing, is not kept.
pub(super) fn of(output: &ToolOutput) -> Option<CacheRule> {
    let milliseconds = output.result.get("ttlMs")?.as_f64()?;
    if !is_end(output) {
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
        ttl: ttl.min(LONGEST_TTL),
        scope,
    })
}

/// Whether a result is the end of its call, and not a question to whoever made it.
pub(super) fn is_end(output: &ToolOutput) -> bool {
    let kind = output.result.get("resultType").and_then(Value::as_str);
    kind.is_none_or(|kind| kind == "complete")
}
