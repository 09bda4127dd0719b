//! Cooldowns and rate limits.

mod past_calls;
#[cfg(test)]
mod tests;
mod window;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{QuotaAccount, RateLimits, RateWindows};
use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::{ErrorCode, ToolFailure, ToolOrigin, whole_seconds};
pub use past_calls::PastCallCount;
use past_calls::PastCallCounts;
use window::CallTimes;

/// Counts calls per account and tool, and per account and server.
///
/// Windows slide: `10 per minute` means at most 10 calls in any 60 seconds. A fixed window would
/// let nearly twice as many through (ADR 0002).
pub(super) struct RateLimiter {
    limits: RateLimits,
    ledger: Arc<Mutex<RateLimitCounts>>,
    past: PastCallCounts,
}

#[derive(Default)]
struct RateLimitCounts {
    times: HashMap<Key, CallTimes>,
    admissions_since_sweep: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    account: QuotaAccount,
    subject: Subject,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Subject {
    Tool(String),
    Server(String),
}

/// A call that passed the rate limits before this executor was created, or in another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCall {
    /// The name of the called tool.
    pub tool: String,
    /// The label of the tool's MCP server.
    pub server: Option<String>,
    /// The account whose limits the call counts toward.
    pub account: QuotaAccount,
    /// Time since the call passed the rate limits.
    pub age: Duration,
}

/// How long past calls of unregistered tools are kept: a tool that is registered later may have a
/// cooldown.
pub(super) const UNREGISTERED_TOOL_TTL: Duration = Duration::from_secs(300);

/// Number of admitted calls after which the ledger drops calls that are outside every window, so
/// that the ledger does not grow with the number of users.
const CALLS_PER_SWEEP: usize = 1024;

/// Maximum number of pairs of an account and a tool or server that the ledger keeps between two
/// sweeps: about 10 MB.
const MAX_ACCOUNTS: usize = 50_000;

/// Maximum number of calls of all accounts that the ledger keeps: 64 MB.
const MAX_CALLS: usize = 4_000_000;

/// Number of pairs that remain after a sweep of a full ledger, so that the next sweeps find nothing
/// to drop.
const SWEEP_TARGET_ACCOUNTS: usize = MAX_ACCOUNTS / 8 * 7;
const SWEEP_TARGET_CALLS: usize = MAX_CALLS / 8 * 7;

impl RateLimiter {
    pub(super) fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            ledger: Arc::default(),
            past: PastCallCounts::default(),
        }
    }

    /// Returns a limiter with other limits that shares the counted calls. Calls older than the
    /// longest window of the old limits are not counted.
    pub(super) fn with_limits(&self, limits: RateLimits) -> Self {
        Self {
            limits,
            ledger: Arc::clone(&self.ledger),
            past: self.past.clone(),
        }
    }

    /// Returns the longest of all rate-limit windows and cooldowns of registered tools, at least
    /// [`UNREGISTERED_TOOL_TTL`].
    pub(super) fn lookback(&self, registry: &ToolRegistry) -> Duration {
        let limits = &self.limits;
        let configured = limits.tools.values().chain(limits.servers.values());
        let windows = configured
            .chain([&limits.default])
            .map(RateWindows::max_length);
        let tools = registry.tools(None);
        let cooldowns = tools.iter().map(|tool| tool.definition().cooldown());
        let lookback = windows.chain(cooldowns).max().unwrap_or_default();
        lookback.max(UNREGISTERED_TOOL_TTL)
    }

    /// Counts calls that another executor or process admitted.
    pub(super) fn count(&self, calls: impl IntoIterator<Item = PastCall>, registry: &ToolRegistry) {
        let now = Instant::now();
        let mut ledger = self.ledger.lock();
        for call in calls {
            let Some(at) = now.checked_sub(call.age) else {
                continue;
            };
            let limits = &self.limits;
            let tool = registry.get(&call.tool);
            let cooldown = match tool {
                Some(tool) => tool.definition().cooldown(),
                None if call.server.is_none() => UNREGISTERED_TOOL_TTL,
                // Tools of MCP servers have no cooldown.
                None => Duration::ZERO,
            };
            let windows = limits.tools.get(&call.tool).unwrap_or(&limits.default);
            let of_server = call.server.and_then(|label| {
                let windows = limits.servers.get(&label)?;
                Some((Subject::Server(label), *windows, Duration::ZERO))
            });
            let subject = Subject::Tool(call.tool);
            let of_tool = (subject, *windows, cooldown);
            for (subject, windows, cooldown) in [Some(of_tool), of_server].into_iter().flatten() {
                let horizon = windows.max_length().max(cooldown);
                if call.age >= horizon {
                    continue;
                }
                let account = call.account.clone();
                let times = ledger.times.entry(Key { account, subject }).or_default();
                times.insert_past(at, horizon, windows.max_calls());
            }
        }
        ledger.sweep(now);
    }

    /// Delays limited calls until the returned value is dropped.
    pub(super) fn begin_count(&self) -> PastCallCount {
        self.past.begin()
    }

    /// Waits until the calls of earlier processes are counted, if the tool has a limit.
    ///
    /// # Errors
    /// `unavailable` after `deadline`.
    pub(super) async fn wait_for_count(
        &self,
        tool: &RegisteredTool,
        deadline: Instant,
    ) -> Result<(), ToolFailure> {
        if self.past.is_complete() || !self.has_limit(tool) {
            return Ok(());
        }
        let counted = tokio::time::timeout_at(deadline, self.past.completed()).await;
        counted.map_err(|_| {
            let message = "The calls before the restart are not yet counted towards the limits";
            ToolFailure::new(ErrorCode::Unavailable, message)
                .with_retry_after(Duration::from_secs(1))
        })
    }

    fn has_limit(&self, tool: &RegisteredTool) -> bool {
        let windows = self.limits.tools.get(tool.name().as_str());
        let server = match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => self.limits.servers.get(server_label),
            ToolOrigin::Native => None,
        };
        let windows = [Some(windows.unwrap_or(&self.limits.default)), server];
        !tool.definition().cooldown().is_zero()
            || windows
                .into_iter()
                .flatten()
                .any(|windows| windows.has_limit())
    }

    /// Admits and counts the call, or fails with the time to wait. A rejected call is not counted.
    pub(super) fn admit(
        &self,
        tool: &RegisteredTool,
        account: &QuotaAccount,
    ) -> Result<(), ToolFailure> {
        let cooldown = tool.definition().cooldown();
        let name = tool.name().as_str();
        let tool_windows = self.limits.tools.get(name).unwrap_or(&self.limits.default);
        let server = match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => {
                let windows = self.limits.servers.get(server_label);
                windows.map(|windows| (server_label, windows))
            }
            ToolOrigin::Native => None,
        };
        let key = |subject| Key {
            account: account.clone(),
            subject,
        };
        let mut checks = Vec::with_capacity(2);
        if !cooldown.is_zero() || tool_windows.has_limit() {
            checks.push((key(Subject::Tool(name.to_owned())), *tool_windows, cooldown));
        }
        if let Some((label, windows)) = server.filter(|(_, windows)| windows.has_limit()) {
            checks.push((
                key(Subject::Server(label.clone())),
                *windows,
                Duration::ZERO,
            ));
        }
        if checks.is_empty() {
            return Ok(());
        }

        let now = Instant::now();
        let mut ledger = self.ledger.lock();
        for (key, windows, cooldown) in &checks {
            // The account may have made no call before.
            let mut none = CallTimes::default();
            let times = ledger.times.get_mut(key).unwrap_or(&mut none);
            cool(times, *cooldown, name, now)?;
            within(times, windows, now)?;
        }
        for (key, windows, cooldown) in checks {
            let horizon = windows.max_length().max(cooldown);
            ledger.times.entry(key).or_default().add(now, horizon);
        }
        ledger.admissions_since_sweep += 1;
        if ledger.admissions_since_sweep >= CALLS_PER_SWEEP {
            ledger.sweep(now);
        }
        Ok(())
    }
}

impl RateLimitCounts {
    /// Drops calls that no window contains any more. If the ledger is still too large, drops the
    /// entries that were used longest ago.
    fn sweep(&mut self, now: Instant) {
        self.admissions_since_sweep = 0;
        self.times.retain(|_, times| !times.is_expired(now));
        let calls = |times: &HashMap<Key, CallTimes>| times.values().map(CallTimes::len).sum();
        let mut calls: usize = calls(&self.times);
        if self.times.len() <= MAX_ACCOUNTS && calls <= MAX_CALLS {
            return;
        }
        let mut by_age: Vec<_> = self
            .times
            .iter()
            .map(|(key, times)| (times.last(), key.clone()))
            .collect();
        by_age.sort_unstable_by_key(|(last, _)| *last);
        tracing::warn!(
            accounts = by_age.len(),
            calls,
            "Rate limits track too many calls: the least recently used counters were dropped"
        );
        // The entry that was used last stays, however large it is.
        by_age.pop();
        for (_, key) in by_age {
            if self.times.len() <= SWEEP_TARGET_ACCOUNTS && calls <= SWEEP_TARGET_CALLS {
                break;
            }
            let gone = self.times.remove(&key);
            calls -= gone.map_or(0, |times| times.len());
        }
    }
}

fn cool(
    times: &CallTimes,
    cooldown: Duration,
    name: &str,
    now: Instant,
) -> Result<(), ToolFailure> {
    let wait = times.last().map_or(Duration::ZERO, |last| {
        cooldown.saturating_sub(now.saturating_duration_since(last))
    });
    if cooldown.is_zero() || wait.is_zero() {
        return Ok(());
    }
    Err(limited(&format!("Tool '{name}' is cooling down."), wait))
}

fn within(times: &mut CallTimes, windows: &RateWindows, now: Instant) -> Result<(), ToolFailure> {
    times.drop_expired(now);
    for (label, length, limit) in windows.each() {
        if let Some(wait) = times.wait_for(limit, length, now) {
            return Err(limited(
                &format!("Rate limit exceeded (per-{label})."),
                wait,
            ));
        }
    }
    Ok(())
}

fn limited(what: &str, wait: Duration) -> ToolFailure {
    let seconds = whole_seconds(wait);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    ToolFailure::new(
        ErrorCode::RateLimited,
        format!("{what} Retry after {seconds} {unit}."),
    )
    .with_retry_after(wait)
}
