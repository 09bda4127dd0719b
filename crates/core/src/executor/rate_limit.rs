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
use crate::tool::{ErrorCode, ToolFailure, whole_seconds};
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
    past_call_counts: PastCallCounts,
}

#[derive(Default)]
struct RateLimitCounts {
    times: HashMap<LedgerKey, CallTimes>,
    admissions_since_sweep: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct LedgerKey {
    account: QuotaAccount,
    subject: LimitSubject,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum LimitSubject {
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

/// The time for which past calls of unregistered tools are stored, because a tool that is
/// registered later may have a cooldown.
pub(super) const UNREGISTERED_TOOL_TTL: Duration = Duration::from_secs(300);

/// Number of admitted calls after which the ledger drops calls that are outside every window, so
/// that the ledger does not grow with the number of users.
const CALLS_PER_SWEEP: usize = 1024;

/// Maximum number of pairs of an account and a tool or server that the ledger keeps between two
/// sweeps: about 10 MB.
const MAX_LEDGER_ENTRIES: usize = 50_000;

/// Maximum number of calls of all accounts that the ledger keeps between two sweeps: 64 MB.
const MAX_CALLS: usize = 4_000_000;

/// Number of pairs that remain after a sweep of a full ledger, so that the ledger is not full again
/// at the next sweep.
const SWEEP_TARGET_ENTRIES: usize = MAX_LEDGER_ENTRIES / 8 * 7;
const SWEEP_TARGET_CALLS: usize = MAX_CALLS / 8 * 7;

impl RateLimiter {
    pub(super) fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            ledger: Arc::default(),
            past_call_counts: PastCallCounts::default(),
        }
    }

    /// Returns a limiter with the given limits that shares this limiter's counted calls. Calls
    /// older than the longest window of the old limits are not counted.
    pub(super) fn with_limits(&self, limits: RateLimits) -> Self {
        Self {
            limits,
            ledger: Arc::clone(&self.ledger),
            past_call_counts: self.past_call_counts.clone(),
        }
    }

    /// Returns the longest of all rate-limit windows and cooldowns of registered tools, at least
    /// [`UNREGISTERED_TOOL_TTL`].
    pub(super) fn lookback(&self, registry: &ToolRegistry) -> Duration {
        let limits = &self.limits;
        let configured_windows = limits.tools.values().chain(limits.servers.values());
        let windows = configured_windows
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
            let Some(admitted_at) = now.checked_sub(call.age) else {
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
            let server_limit = call.server.and_then(|label| {
                let windows = limits.servers.get(&label)?;
                Some((LimitSubject::Server(label), *windows, Duration::ZERO))
            });
            let subject = LimitSubject::Tool(call.tool);
            let tool_limit = (subject, *windows, cooldown);
            let call_limits = [Some(tool_limit), server_limit].into_iter().flatten();
            for (subject, windows, cooldown) in call_limits {
                let horizon = windows.max_length().max(cooldown);
                if call.age >= horizon {
                    continue;
                }
                let account = call.account.clone();
                let key = LedgerKey { account, subject };
                let times = ledger.times.entry(key).or_default();
                times.insert_past(admitted_at, horizon, windows.max_calls());
            }
        }
        ledger.sweep(now);
    }

    /// Delays calls of tools with a rate limit or a cooldown until the returned value is dropped.
    pub(super) fn begin_count(&self) -> PastCallCount {
        self.past_call_counts.begin()
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
        if self.past_call_counts.is_complete() || !self.has_limit(tool) {
            return Ok(());
        }
        let count_outcome =
            tokio::time::timeout_at(deadline, self.past_call_counts.wait_for_completion()).await;
        count_outcome.map_err(|_| {
            let message = format!(
                "Tool '{}' has not run: its calls before the restart are still being counted \
                 toward its limits. Retry after 1 second.",
                tool.name()
            );
            ToolFailure::new(ErrorCode::Unavailable, message)
                .with_retry_after(Duration::from_secs(1))
        })
    }

    fn has_limit(&self, tool: &RegisteredTool) -> bool {
        let windows = self.limits.tools.get(tool.name().as_str());
        let label = tool.origin().server_label();
        let server = label.and_then(|label| self.limits.servers.get(label));
        let windows = [Some(windows.unwrap_or(&self.limits.default)), server];
        !tool.definition().cooldown().is_zero()
            || windows.iter().flatten().any(|windows| windows.has_limit())
    }

    /// Admits and counts the call, or fails with the time after which the call may be repeated. A
    /// rejected call is not counted.
    pub(super) fn admit(
        &self,
        tool: &RegisteredTool,
        account: &QuotaAccount,
    ) -> Result<(), ToolFailure> {
        let cooldown = tool.definition().cooldown();
        let name = tool.name().as_str();
        let tool_windows = self.limits.tools.get(name).unwrap_or(&self.limits.default);
        let label = tool.origin().server_label();
        let server = label.and_then(|label| Some((label, self.limits.servers.get(label)?)));
        let create_key = |subject| LedgerKey {
            account: account.clone(),
            subject,
        };
        let mut checks = Vec::with_capacity(2);
        if !cooldown.is_zero() || tool_windows.has_limit() {
            let key = create_key(LimitSubject::Tool(name.to_owned()));
            checks.push((key, *tool_windows, cooldown));
        }
        if let Some((label, windows)) = server.filter(|(_, windows)| windows.has_limit()) {
            let key = create_key(LimitSubject::Server(label.to_owned()));
            checks.push((key, *windows, Duration::ZERO));
        }
        if checks.is_empty() {
            return Ok(());
        }

        let now = Instant::now();
        let mut ledger = self.ledger.lock();
        for (key, windows, cooldown) in &checks {
            // An account without earlier calls has no entry in the ledger.
            let mut no_calls = CallTimes::default();
            let times = ledger.times.get_mut(key).unwrap_or(&mut no_calls);
            check_cooldown(times, *cooldown, name, now)?;
            check_windows(times, windows, now)?;
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
    /// least recently used entries.
    fn sweep(&mut self, now: Instant) {
        self.admissions_since_sweep = 0;
        self.times.retain(|_, times| !times.is_expired(now));
        let mut calls: usize = self.times.values().map(CallTimes::len).sum();
        if self.times.len() <= MAX_LEDGER_ENTRIES && calls <= MAX_CALLS {
            return;
        }
        let to_entry = |(key, times): (&LedgerKey, &CallTimes)| (times.last(), key.clone());
        let mut entries_by_age: Vec<_> = self.times.iter().map(to_entry).collect();
        entries_by_age.sort_unstable_by_key(|(last, _)| *last);
        tracing::warn!(
            accounts = entries_by_age.len(),
            calls,
            "Rate limits track too many calls: the least recently used counters were dropped"
        );
        // The most recently used entry is never dropped, however large it is.
        entries_by_age.pop();
        for (_, key) in entries_by_age {
            if self.times.len() <= SWEEP_TARGET_ENTRIES && calls <= SWEEP_TARGET_CALLS {
                break;
            }
            let removed_times = self.times.remove(&key);
            calls -= removed_times.map_or(0, |times| times.len());
        }
    }
}

fn check_cooldown(
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
    let reason = format!("Tool '{name}' is cooling down.");
    Err(rate_limited_failure(&reason, wait))
}

fn check_windows(
    times: &mut CallTimes,
    windows: &RateWindows,
    now: Instant,
) -> Result<(), ToolFailure> {
    times.drop_expired(now);
    for (label, length, limit) in windows.limits() {
        if let Some(wait) = times.time_until_allowed(limit, length, now) {
            let reason = format!("Rate limit exceeded (per-{label}).");
            return Err(rate_limited_failure(&reason, wait));
        }
    }
    Ok(())
}

fn rate_limited_failure(reason: &str, wait: Duration) -> ToolFailure {
    let seconds = whole_seconds(wait);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    let message = format!("{reason} Retry after {seconds} {unit}.");
    ToolFailure::new(ErrorCode::RateLimited, message).with_retry_after(wait)
}
