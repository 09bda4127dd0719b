//! Results that are kept for a while, and calls that several callers share.

mod hints;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::run;
use crate::digest::sha256_hex;
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, JsonObject, ToolFailure, ToolOrigin, ToolOutput};
use kept::Kept;

/// Whose calls get a kept result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheScope {
    /// Those of the user whose call it came from, let in as the same principal, and vouched for
    /// just as there, which a tool may heed. Calls that name no user count as one user's, as they
    /// do for the limits. Of a tool that makes calls, those alone besides that come from the same
    /// channel and may use the same tools.
    #[default]
    Private,
    /// Everybody's.
    Public,
}

/// How long the results of a tool are kept, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRule {
    /// How old a result may be.
    pub ttl: Duration,
    /// Who gets it.
    pub scope: CacheScope,
}

/// What results are kept: none by default, but those of MCP servers which say so themselves.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// The tools whose results are kept, by name. The same arguments have to give the same
    /// result meanwhile, whatever else the tool could see of its caller.
    pub tools: HashMap<String, CacheRule>,
    /// Whether results of MCP servers are kept that say how long they are good (`ttlMs`) and
    /// for whom (`cacheScope`); of tools that `tools` does not name. Default yes.
    pub heed_servers: bool,
    /// Results that are kept at most. Default 10,000.
    pub max_entries: usize,
    /// Their bytes, about. Default 64 MiB.
    pub max_bytes: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            tools: HashMap::new(),
            heed_servers: true,
            max_entries: 10_000,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

/// How the cache is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Results that are kept now.
    pub entries: usize,
    /// Their bytes, about.
    pub bytes: usize,
    /// Calls that got a kept result, or that of another's call.
    pub hits: u64,
    /// Calls of tools with a rule that found none.
    pub misses: u64,
}

/// The kept results of an executor.
#[derive(Default)]
pub(super) struct ResultCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Kept,
    /// The calls under way that others wait for, by key.
    flights: HashMap<String, watch::Receiver<Option<Arc<ToolOutput>>>>,
    hits: u64,
    misses: u64,
}

/// A call that may be answered from the cache.
pub(super) struct Request<'a> {
    config: &'a CacheConfig,
    tool: &'a RegisteredTool,
    arguments: JsonObject,
    /// Who asks: none of it is shared with others, unless the result is everybody's.
    caller: serde_json::Value,
    variant: Option<String>,
    /// The credential that the tool acts with, where that is not the same for everybody: then
    /// the result is its caller's alone, whatever anybody says of its scope.
    acts_as: Option<String>,
    rule: Option<CacheRule>,
    deadline: Instant,
}

impl<'a> Request<'a> {
    /// None if the tool's results are never kept.
    pub(super) fn of(
        config: &'a CacheConfig,
        tool: &'a RegisteredTool,
        arguments: &JsonObject,
        context: &CallContext,
        deadline: Instant,
    ) -> Option<Self> {
        let mut rule = config.tools.get(tool.name().as_str()).copied();
        if let Some(rule) = rule.as_mut().filter(|_| tool.tool().makes_calls()) {
            // What its calls come to may hang on the caller, whatever anybody says of its scope.
            rule.scope = CacheScope::Private;
        }
        let caller = match tool.tool().makes_calls() {
            true => context.of_nested_calls(),
            false => context.of_own_call(),
        };
        let may_be_kept = rule.is_some() || (config.heed_servers && tool.origin().is_mcp());
        may_be_kept.then(|| Self {
            config,
            tool,
            arguments: arguments.clone(),
            caller,
            variant: context.variant.clone(),
            acts_as: context
                .acts_as
                .as_ref()
                .map(|acts_as| acts_as.credential.clone()),
            rule,
            deadline,
        })
    }

    /// What two calls have in common that may have one result: SHA-256 of tool, definition,
    /// digest, server, canonical arguments, variant, whom the tool acts as and, unless the result is everybody's, caller.
    fn key(&self, scope: CacheScope) -> String {
        let server = match self.tool.origin() {
            ToolOrigin::Mcp {
                server_label,
                server_url,
            } => Some((server_label, server_url)),
            ToolOrigin::Native => None,
        };
        let caller = match scope {
            CacheScope::Private => self.caller.clone(),
            CacheScope::Public if self.acts_as.is_some() => self.caller.clone(),
            CacheScope::Public => json!(null),
        };
        let mut call = json!({
            "arguments": self.arguments,
            "server": server,
            "tool": self.tool.name().as_str(),
            "definition": [self.tool.definition().description(), self.tool.definition().input_schema()],
            "digest": self.tool.tool().digest(),
            "variant": self.variant,
            "acts_as": self.acts_as,
            "caller": caller,
        });
        call.sort_all_objects();
        sha256_hex(&call.to_string())
    }
}

/// What a call with a rule finds.
enum Turn<'a> {
    Kept(ToolOutput),
    /// The same call runs already.
    Follow(watch::Receiver<Option<Arc<ToolOutput>>>),
    /// It runs first, and others may wait for it.
    Lead(Leader<'a>),
}

/// The call that others wait for. Dropped without a result it lets one of them try.
struct Leader<'a> {
    cache: &'a ResultCache,
    key: String,
    result: watch::Sender<Option<Arc<ToolOutput>>>,
}

impl ResultCache {
    pub(super) fn counts(&self) -> CacheCounts {
        let state = self.state.lock();
        CacheCounts {
            entries: state.kept.len(),
            bytes: state.kept.bytes(),
            hits: state.hits,
            misses: state.misses,
        }
    }

    /// A kept result, or what `run` gives, which is kept if it is to be. `run` is not polled
    /// unless the tool has to run.
    pub(super) async fn pass(
        &self,
        request: Request<'_>,
        limit: Duration,
        run: impl Future<Output = Result<ToolOutput, ToolFailure>>,
    ) -> Result<ToolOutput, ToolFailure> {
        match request.rule {
            Some(rule) => self.by_rule(&request, rule, limit, run).await,
            None => self.by_hints(&request, run).await,
        }
    }

    async fn by_rule(
        &self,
        request: &Request<'_>,
        rule: CacheRule,
        limit: Duration,
        run: impl Future<Output = Result<ToolOutput, ToolFailure>>,
    ) -> Result<ToolOutput, ToolFailure> {
        let key = request.key(rule.scope);
        loop {
            let mut leading = match self.turn(&key, rule.ttl) {
                Turn::Kept(output) => return Ok(output),
                Turn::Lead(leader) => {
                    let output = run.await?;
                    if !hints::is_end(&output) {
                        return Ok(output);
                    }
                    leader.land(&output, rule.ttl, request.config);
                    return Ok(output);
                }
                Turn::Follow(leading) => leading,
            };
            let landed = leading.wait_for(Option::is_some);
            match tokio::time::timeout_at(request.deadline, landed).await {
                Ok(Ok(output)) => {
                    if let Some(output) = output.as_deref() {
                        self.state.lock().hits += 1;
                        return Ok(marked(output, Duration::ZERO));
                    }
                }
                // It failed, or was given up, which says nothing of this call.
                Ok(Err(_)) => {}
                Err(_) => return Err(run::timed_out(request.tool, limit)),
            }
        }
    }

    fn turn(&self, key: &str, ttl: Duration) -> Turn<'_> {
        let mut state = self.state.lock();
        if let Some((output, age)) = state.kept.get(key, Some(ttl)) {
            state.hits += 1;
            return Turn::Kept(marked(&output, age));
        }
        if let Some(leading) = state.flights.get(key) {
            return Turn::Follow(leading.clone());
        }
        state.misses += 1;
        let (result, leading) = watch::channel(None);
        state.flights.insert(key.to_owned(), leading);
        Turn::Lead(Leader {
            cache: self,
            key: key.to_owned(),
            result,
        })
    }

    /// Whether a result is kept is known only once it is there, so that nobody waits for
    /// another's call.
    async fn by_hints(
        &self,
        request: &Request<'_>,
        run: impl Future<Output = Result<ToolOutput, ToolFailure>>,
    ) -> Result<ToolOutput, ToolFailure> {
        let is_empty = self.state.lock().kept.len() == 0;
        if !is_empty {
            for scope in [CacheScope::Private, CacheScope::Public] {
                let key = request.key(scope);
                let mut state = self.state.lock();
                if let Some((output, age)) = state.kept.get(&key, None) {
                    state.hits += 1;
                    return Ok(marked(&output, age));
                }
            }
        }
        let output = run.await?;
        if let Some(rule) = hints::of(&output) {
            let key = request.key(rule.scope);
            let mut state = self.state.lock();
            state
                .kept
                .put(key, Arc::new(output.clone()), rule.ttl, request.config);
        }
        Ok(output)
    }
}

impl Leader<'_> {
    fn land(self, output: &ToolOutput, ttl: Duration, config: &CacheConfig) {
        let output = Arc::new(output.clone());
        let mut state = self.cache.state.lock();
        let key = self.key.clone();
        state.kept.put(key, Arc::clone(&output), ttl, config);
        drop(state);
        self.result.send_replace(Some(output));
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.cache.state.lock().flights.remove(&self.key);
    }
}

/// The result says where it comes from; what it says of how long it is good is shorter by its
/// age.
fn marked(output: &ToolOutput, age: Duration) -> ToolOutput {
    let mut output = output.clone().with_metadata("cached", json!(true));
    if let Some(ttl) = output.result.get_mut("ttlMs") {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        *ttl = json!(ttl.as_u64().unwrap_or(0).saturating_sub(age));
    }
    output
}
