//! The result cache, and the sharing of one run by equal concurrent calls.

mod config;
mod entries;
mod hints;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::output;
use super::result_memory::Reservation;
use crate::digest::sha256_hex;
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, JsonObject, ToolFailure, ToolOrigin, ToolOutput};
pub use config::{CacheConfig, CacheRule, CacheScope};
use entries::CacheEntries;

/// Statistics of the result cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Current number of cached results.
    pub entries: usize,
    /// Approximate size of the cached results, in bytes.
    pub bytes: usize,
    /// Number of calls that returned a cached result or the result of a concurrent call.
    pub hits: u64,
    /// Number of calls of tools with a cache rule that found no cached result.
    pub misses: u64,
}

/// The result cache of an executor.
#[derive(Default)]
pub(super) struct ToolResultCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: CacheEntries,
    /// Running calls with a cache rule that other calls may wait for, by cache key.
    running_calls: HashMap<String, watch::Receiver<Option<Arc<ToolOutput>>>>,
    hits: u64,
    misses: u64,
}

/// A call whose result the cache may contain, and the data on which the call's cache key depends.
pub(super) struct Request<'a> {
    config: &'a CacheConfig,
    tool: &'a RegisteredTool,
    arguments: JsonObject,
    /// The identity of the caller, which is part of the cache key unless the result is public.
    caller: serde_json::Value,
    variant: Option<String>,
    /// The credential of the tool's acting identity. If set, the result is private to the caller,
    /// even if the cache rule or the server's hint says that the result is public.
    credential: Option<String>,
    rule: Option<CacheRule>,
    deadline: Instant,
}

impl<'a> Request<'a> {
    /// Creates the cache request of a call. Returns `None` if the tool's results are never cached.
    pub(super) fn for_call(
        config: &'a CacheConfig,
        tool: &'a RegisteredTool,
        arguments: &JsonObject,
        context: &CallContext,
        deadline: Instant,
    ) -> Option<Self> {
        let mut rule = config.tools.get(tool.name().as_str()).copied();
        if let Some(rule) = rule.as_mut().filter(|_| tool.tool().makes_calls()) {
            // Results of a tool that makes nested calls are never shared between callers, because
            // nested calls may return different results for different callers.
            rule.scope = CacheScope::Private;
        }
        let may_be_cached = rule.is_some() || (config.honor_servers && tool.origin().is_mcp());
        let acting_identity = context.acting_identity.as_ref();
        may_be_cached.then(|| Self {
            config,
            tool,
            arguments: arguments.clone(),
            caller: if tool.tool().makes_calls() {
                context.nested_call_identity()
            } else {
                context.caller_identity()
            },
            variant: context.variant.clone(),
            credential: acting_identity.map(|identity| identity.credential.clone()),
            rule,
            deadline,
        })
    }

    /// Returns the cache key: SHA-256 of tool, definition, digest, server, canonical arguments,
    /// variant, acting credential and, unless the result is public, caller.
    fn key(&self, scope: CacheScope) -> String {
        let server = match self.tool.origin() {
            ToolOrigin::Mcp {
                server_label,
                server_url,
            } => Some((server_label, server_url)),
            ToolOrigin::Native => None,
        };
        let caller = match scope {
            CacheScope::Public if self.credential.is_none() => json!(null),
            CacheScope::Public | CacheScope::Private => self.caller.clone(),
        };
        let mut call = json!({
            "arguments": self.arguments,
            "server": server,
            "tool": self.tool.name().as_str(),
            "definition": [self.tool.definition().description(), self.tool.definition().input_schema()],
            "digest": self.tool.tool().digest(),
            "variant": self.variant,
            "acting_identity": self.credential,
            "caller": caller,
        });
        call.sort_all_objects();
        sha256_hex(&call.to_string())
    }
}

/// The result of a cache lookup for a call with a cache rule.
enum CacheLookup<'a> {
    Cached(Arc<ToolOutput>, Duration),
    /// The call waits for the result of a running call with the same key.
    AwaitRun(watch::Receiver<Option<Arc<ToolOutput>>>),
    /// No call with the same key is running: the call runs, and other calls may wait for its
    /// result.
    StartRun(SharedRun<'a>),
}

/// A call whose result other calls wait for. If dropped without a result, one of the waiting calls
/// runs next.
struct SharedRun<'a> {
    cache: &'a ToolResultCache,
    key: String,
    result_sender: watch::Sender<Option<Arc<ToolOutput>>>,
}

impl ToolResultCache {
    pub(super) fn counts(&self) -> CacheCounts {
        let state = self.state.lock();
        CacheCounts {
            entries: state.entries.len(),
            bytes: state.entries.bytes(),
            hits: state.hits,
            misses: state.misses,
        }
    }

    /// Returns a cached result, or the result of `run`, which is cached if a rule or hint allows
    /// that. `run` is polled only if the tool needs to run.
    pub(super) async fn get_or_run(
        &self,
        request: Request<'_>,
        limit: Duration,
        reservation: &Reservation,
        run: impl Future<Output = Result<ToolOutput, ToolFailure>>,
    ) -> Result<ToolOutput, ToolFailure> {
        match request.rule {
            Some(rule) => {
                self.run_with_rule(&request, rule, limit, reservation, run)
                    .await
            }
            None => self.run_with_hints(&request, reservation, run).await,
        }
    }

    async fn run_with_rule(
        &self,
        request: &Request<'_>,
        rule: CacheRule,
        limit: Duration,
        reservation: &Reservation,
        run: impl Future<Output = Result<ToolOutput, ToolFailure>>,
    ) -> Result<ToolOutput, ToolFailure> {
        let key = request.key(rule.scope);
        loop {
            let mut result_receiver = match self.look_up(&key, rule.ttl) {
                CacheLookup::Cached(output, age) => {
                    return Ok(copy_cached(&output, age, reservation).await);
                }
                CacheLookup::StartRun(shared_run) => {
                    let output = run.await?;
                    if hints::completes_call(&output) {
                        shared_run.store_and_publish(&output, rule.ttl, request.config);
                    }
                    return Ok(output);
                }
                CacheLookup::AwaitRun(result_receiver) => result_receiver,
            };
            let result_future = result_receiver.wait_for(Option::is_some);
            let wait_outcome = pillion_deadline::timeout_at(request.deadline, result_future).await;
            // The result is cloned, because a borrowed result would keep the channel locked.
            match wait_outcome.map(|receipt| receipt.map(|output| output.clone())) {
                Ok(Ok(Some(output))) => {
                    self.state.lock().hits += 1;
                    return Ok(copy_cached(&output, Duration::ZERO, reservation).await);
                }
                // The call that this call waited for failed or was cancelled, so this call tries
                // again.
                Ok(Ok(None) | Err(_)) => {}
                Err(_) => {
                    let tool = request.tool;
                    return Err(ToolFailure::timed_out(tool.name(), tool.origin(), limit));
                }
            }
        }
    }

    fn look_up(&self, key: &str, ttl: Duration) -> CacheLookup<'_> {
        let mut state = self.state.lock();
        if let Some((output, age)) = state.entries.get(key, Some(ttl)) {
            state.hits += 1;
            return CacheLookup::Cached(output, age);
        }
        if let Some(result_receiver) = state.running_calls.get(key) {
            return CacheLookup::AwaitRun(result_receiver.clone());
        }
        state.misses += 1;
        let (result_sender, result_receiver) = watch::channel(None);
        state.running_calls.insert(key.to_owned(), result_receiver);
        CacheLookup::StartRun(SharedRun {
            cache: self,
            key: key.to_owned(),
            result_sender,
        })
    }

    /// Returns the cached result of a tool without a cache rule, and the age of the result.
    fn find(&self, key: &str) -> Option<(Arc<ToolOutput>, Duration)> {
        let mut state = self.state.lock();
        let cached_result = state.entries.get(key, None)?;
        state.hits += 1;
        Some(cached_result)
    }

    /// Handles a call of a tool without a cache rule. Only the result tells whether it may be
    /// cached, so concurrent calls never wait for each other.
    async fn run_with_hints(
        &self,
        request: &Request<'_>,
        reservation: &Reservation,
        run: impl Future<Output = Result<ToolOutput, ToolFailure>>,
    ) -> Result<ToolOutput, ToolFailure> {
        let is_empty = self.state.lock().entries.len() == 0;
        if !is_empty {
            for scope in [CacheScope::Private, CacheScope::Public] {
                let key = request.key(scope);
                if let Some((output, age)) = self.find(&key) {
                    return Ok(copy_cached(&output, age, reservation).await);
                }
            }
        }
        let output = run.await?;
        if let Some(rule) = hints::parse(&output) {
            let key = request.key(rule.scope);
            let copy = Arc::new(output.without_response());
            let mut state = self.state.lock();
            state.entries.put(key, copy, rule.ttl, request.config);
        }
        Ok(output)
    }
}

impl SharedRun<'_> {
    fn store_and_publish(self, output: &ToolOutput, ttl: Duration, config: &CacheConfig) {
        let output = Arc::new(output.without_response());
        let mut state = self.cache.state.lock();
        let key = self.key.clone();
        state.entries.put(key, Arc::clone(&output), ttl, config);
        drop(state);
        self.result_sender.send_replace(Some(output));
    }
}

impl Drop for SharedRun<'_> {
    fn drop(&mut self) {
        self.cache.state.lock().running_calls.remove(&self.key);
    }
}

/// Copies a cached result, marks the copy as cached, and subtracts the result's age from the copy's
/// `ttlMs`. Reserves the memory for the copy first.
async fn copy_cached(output: &ToolOutput, age: Duration, reservation: &Reservation) -> ToolOutput {
    reservation.extend(output::size(output)).await;
    let mut output = output.clone().with_metadata("cached", json!(true));
    if let Some(ttl) = output.result.get_mut("ttlMs") {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        *ttl = json!(ttl.as_u64().unwrap_or(0).saturating_sub(age));
    }
    output
}
