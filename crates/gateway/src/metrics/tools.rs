use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use pillion_core::executor::{ObservedCall, Observer};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolOrigin, ToolResult};

use super::latency::{LatencyHistogram, load_count};

/// Maximum number of tools that are counted by name; further tools count as [`OTHER_TOOLS`].
pub const MAX_TOOLS: usize = 2000;

/// The name under which calls of unknown tools count.
const UNKNOWN_TOOL: &str = "(unknown)";

/// The name under which calls of known tools count when [`MAX_TOOLS`] names are in use.
const OTHER_TOOLS: &str = "(other)";

/// The outcome of a call: success or an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome(usize);

impl Outcome {
    /// The names of all outcomes.
    pub const OUTCOME_NAMES: [&'static str; 10] = [
        "success",
        "invalid_input",
        "not_found",
        "rate_limited",
        "timeout",
        "approval_required",
        "denied",
        "unavailable",
        "cancelled",
        "internal_error",
    ];

    fn from_code(code: Option<ErrorCode>) -> Self {
        let name = code.map_or("success", ErrorCode::as_str);
        let mut names = Self::OUTCOME_NAMES.iter();
        let index = names.position(|known_name| *known_name == name);
        // A code that is not in `OUTCOME_NAMES` counts as an internal error.
        Self(index.unwrap_or(Self::OUTCOME_NAMES.len() - 1))
    }
}

/// The calls of one tool.
#[derive(Debug, Default)]
pub struct ToolStats {
    /// The label of the tool's MCP server; `None` for a tool of no server.
    pub server: Option<String>,
    outcomes: [AtomicU64; Outcome::OUTCOME_NAMES.len()],
    /// The durations of finished calls.
    pub latency: LatencyHistogram,
}

impl ToolStats {
    fn add(&self, outcome: Outcome, elapsed: Duration) {
        self.outcomes[outcome.0].fetch_add(1, Ordering::Relaxed);
        self.latency.add(elapsed);
    }

    /// Returns the number of calls by outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.outcomes.iter().map(load_count);
        Outcome::OUTCOME_NAMES.iter().copied().zip(counts)
    }

    /// Returns the number of finished calls, and the number of failed calls among them.
    #[must_use]
    pub fn calls_and_failures(&self) -> (u64, u64) {
        let mut outcomes = self.outcomes();
        let successes = outcomes.next().map_or(0, |(_, count)| count);
        let failures: u64 = outcomes.map(|(_, count)| count).sum();
        (successes + failures, failures)
    }
}

/// Counts the calls of all tools over all APIs, as an observer of the executor.
#[derive(Debug, Default)]
pub struct ToolMetrics {
    stats_by_name: RwLock<BTreeMap<String, Arc<ToolStats>>>,
    /// The labels of MCP servers that list their tools for each user.
    per_user_servers: RwLock<HashSet<String>>,
    in_flight: AtomicI64,
}

impl ToolMetrics {
    /// Returns the number of calls that run, or wait for a permit or an approval.
    #[must_use]
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the statistics of each called tool, by name.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(String, Arc<ToolStats>)> {
        self.stats_by_name.read().clone().into_iter().collect()
    }

    /// Records, for each MCP server by label, whether it lists the same tools for all users. The
    /// tool names of a server that lists its tools for each user are private to the users, so all
    /// calls to that server are counted under one name. Records of servers that are not in
    /// `servers` stay.
    pub fn record_servers(&self, servers: impl IntoIterator<Item = (String, bool)>) {
        let mut per_user_servers = self.per_user_servers.write();
        for (label, lists_for_all_users) in servers {
            if lists_for_all_users {
                per_user_servers.remove(&label);
            } else {
                per_user_servers.insert(label);
            }
        }
    }

    /// Returns the name under which calls of a tool count.
    fn counted_name(&self, tool: &str, origin: Option<&ToolOrigin>) -> String {
        match origin {
            // Callers can invent names, so only names of known tools are stored.
            None => UNKNOWN_TOOL.to_owned(),
            Some(ToolOrigin::Mcp { server_label, .. })
                if self.per_user_servers.read().contains(server_label) =>
            {
                format!("(users' of {server_label})")
            }
            Some(_) => tool.to_owned(),
        }
    }

    fn tool_stats(&self, name: &str, origin: Option<&ToolOrigin>) -> Arc<ToolStats> {
        if let Some(stats) = self.stats_by_name.read().get(name) {
            return Arc::clone(stats);
        }
        let mut tools = self.stats_by_name.write();
        let (name, server) = match origin {
            _ if tools.len() >= MAX_TOOLS => (OTHER_TOOLS, None),
            Some(ToolOrigin::Mcp { server_label, .. }) => (name, Some(server_label.clone())),
            _ => (name, None),
        };
        let stats = tools.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(ToolStats {
                server,
                ..ToolStats::default()
            })
        });
        Arc::clone(stats)
    }
}

impl Observer for ToolMetrics {
    fn on_started(&self, _: &ToolCall, _: Option<&ToolOrigin>, _: &CallContext) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        _: &CallContext,
    ) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let name = self.counted_name(&result.tool_name, origin);
        let stats = self.tool_stats(&name, origin);
        stats.add(Outcome::from_code(result.error_code), elapsed);
    }

    fn on_abandoned(
        &self,
        _: &ObservedCall<'_>,
        _: Option<&ToolOrigin>,
        _: Duration,
        _: &CallContext,
    ) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_unknown_names_count_as_one_name() {
        let tools = ToolMetrics::default();
        let context = CallContext::default();
        for name in ["a", "b"] {
            let call = ToolCall::new("1", name, serde_json::json!({}));
            tools.on_started(&call, None, &context);
            let result = ToolResult::failure("1", name, ErrorCode::NotFound, "no");
            tools.on_finished(&result, None, Duration::ZERO, &context);
        }
        let all = tools.snapshot();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].0, UNKNOWN_TOOL);
        assert_eq!(all[0].1.calls_and_failures(), (2, 2));
        assert_eq!(tools.in_flight(), 0);
    }

    #[test]
    fn l1_tools_of_a_users_server_count_as_one_tool_of_the_server() {
        let tools = ToolMetrics::default();
        let context = CallContext::default();
        let origin = |label: &str| ToolOrigin::Mcp {
            server_label: label.to_owned(),
            server_url: "https://mcp.example".to_owned(),
        };
        let servers = [("mail".to_owned(), false), ("dice".to_owned(), true)];
        tools.record_servers(servers);
        let call = |label: &str, name: &str| {
            let result = ToolResult::failure("1", name, ErrorCode::NotFound, "no");
            tools.on_finished(&result, Some(&origin(label)), Duration::ZERO, &context);
        };
        call("mail", "mail_alices_diary");
        call("mail", "mail_bobs_diary");
        call("dice", "dice_roll");
        let names = || tools.snapshot().into_iter().map(|(name, _)| name);
        let listed: Vec<_> = names().collect();
        assert_eq!(listed, ["(users' of mail)", "dice_roll"]);
        let all = tools.snapshot().into_iter();
        let servers: Vec<_> = all.map(|(_, tool)| tool.server.clone()).collect();
        assert_eq!(servers, [Some("mail".to_owned()), Some("dice".to_owned())]);
        // A call may finish after its server was removed.
        tools.record_servers([("dice".to_owned(), true)]);
        call("mail", "mail_carols_diary");
        assert_eq!(tools.snapshot().len(), 2);
        tools.record_servers([("mail".to_owned(), true)]);
        call("mail", "mail_send");
        assert!(names().any(|name| name == "mail_send"));
    }

    #[test]
    fn m1_every_error_code_has_a_separate_counter() {
        for (index, name) in Outcome::OUTCOME_NAMES.iter().enumerate().skip(1) {
            let code = serde_json::from_value(serde_json::json!(name)).unwrap();
            assert_eq!(Outcome::from_code(Some(code)), Outcome(index));
        }
    }

    #[test]
    fn m1_the_number_of_names_is_limited() {
        let tools = ToolMetrics::default();
        for n in 0..MAX_TOOLS + 50 {
            let stats = tools.tool_stats(&format!("tool_{n}"), None);
            stats.add(Outcome::from_code(None), Duration::ZERO);
        }
        assert_eq!(tools.snapshot().len(), MAX_TOOLS + 1);
        let others = tools.tool_stats("one more", None);
        assert_eq!(others.calls_and_failures(), (50, 0));
    }
}
