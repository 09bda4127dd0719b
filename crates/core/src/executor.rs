//! Runs tool calls. Every call ends in exactly one [`ToolResult`], and a failed call does not
//! affect other calls.
//!
//! `pipeline.rs` lists the stages of a call in order.

mod approval;
mod arguments;
mod cache;
mod config;
mod fair_queue;
mod gate;
mod nested;
mod options;
mod output;
mod pipeline;
mod rate_limit;
mod record;
mod result_memory;
mod tool_settings;
mod tracer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use indexmap::IndexMap;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::registry::{RegisteredTool, ToolRegistry, find_by_any_name, repaired_names};
pub use crate::tool::QuotaAccount;
use crate::tool::{CallContext, ErrorCode, ServerResponse, ToolCall, ToolName, ToolResult};
pub use approval::{
    ApprovalFuture, ApprovalPolicy, ApprovalRequest, ApprovalRules, Approver, CountedWork,
    Decision, DecisionClock, SpendFuture, WaitingCallFuture,
};
use cache::ToolResultCache;
pub use cache::{CacheConfig, CacheCounts, CacheRule, CacheScope};
pub use config::{ExecutorConfig, RateLimits, RateWindows};
pub use fair_queue::QueueLoad;
use fair_queue::{FairQueue, ToolSource};
pub use gate::{CallGate, GateFuture, ReadyCall};
pub use options::OptionError;
pub use output::{OversizedResult, ResultStore, StoreResultFuture, StoredResult};
use rate_limit::RateLimiter;
pub use rate_limit::{PastCall, PastCallCount};
use record::{CallObserver, OpenCall};
pub use record::{Journal, ObservedCall, Observer, RESPONSE_ALLOWANCE, Redaction};
pub use tool_settings::ToolSettings;
pub use tracer::{CallSpan, Tracer};

/// Runs calls through the pipeline. Cheap to clone; clones share limits and permits.
///
/// Requires a tokio runtime: each tool runs in its own task, so that a tool that blocks its thread
/// cannot keep a caller past its deadline.
///
/// The [crate root](crate) has an example.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<SharedExecutor>,
    /// Tools that exist for one caller only.
    caller_tools: Option<Arc<CallerOnlyTools>>,
    /// Tools that run in place of the registered tools with the same names.
    overrides: Option<Arc<CallerOnlyTools>>,
    /// The queue of this clone, used instead of the queue that all clones share.
    own_queue: Option<Arc<FairQueue>>,
}

/// The tools that exist for one caller only, by name. No registry contains these tools.
pub type CallerOnlyTools = IndexMap<ToolName, Arc<RegisteredTool>>;

struct SharedExecutor {
    registry: Arc<ToolRegistry>,
    config: ExecutorConfig,
    queue: Arc<FairQueue>,
    checks: arguments::ArgumentChecks,
    limiter: RateLimiter,
    cache: Arc<ToolResultCache>,
    hooks: ExecutorHooks,
}

/// Optional collaborators of an executor. None are set by default.
#[derive(Clone, Default)]
pub struct ExecutorHooks {
    /// Decides on calls that need approval. Without an approver, such calls end as
    /// `approval_required`, unless their context contains the decision.
    pub approver: Option<Arc<dyn Approver>>,
    /// Checks validated and approved calls; can reject a call or return its result without running
    /// the tool.
    pub gate: Option<Arc<dyn CallGate>>,
    /// Records every call in a call log.
    pub journal: Option<Journal>,
    /// Is notified when calls begin and end.
    pub observer: Option<Arc<dyn Observer>>,
    /// Creates a trace span for each call.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Stores results that are larger than `max_result_bytes`. Without a result store, calls with
    /// larger results fail.
    pub result_store: Option<Arc<dyn ResultStore>>,
}

/// A call and the tool that its name refers to.
#[derive(Debug, Clone)]
pub struct ResolvedCall {
    /// The call. Its name is what the caller wrote, such as an alias.
    pub call: ToolCall,
    /// The tool; `None` if there is no tool with the name: the call then ends as `not_found`.
    pub tool: Option<Arc<RegisteredTool>>,
    /// How long the call has waited for the lookup of its tool, which counts toward its deadline.
    pub wait_time: Duration,
}

/// A finished call.
#[derive(Debug, Clone)]
pub struct CompletedCall {
    /// The result that the caller gets, successful or not.
    pub result: ToolResult,
    /// Whether the tool started. `false` if the call failed before its tool ran, or if its result
    /// came from the cache or the gate; such a call has no effect.
    pub has_tool_begun: bool,
    /// The MCP server's response that contained the result. `None` if the tool returned no response
    /// ([`ToolOutput::response`](crate::tool::ToolOutput::response)), or if the executor has
    /// modified the result.
    pub response: Option<ServerResponse>,
    /// The latest time for the response, which is [`RESPONSE_ALLOWANCE`] after the deadline of the
    /// call. Further work, such as storing the response, must not delay the response beyond this
    /// time.
    pub response_deadline: Instant,
}

impl CompletedCall {
    /// Returns whether the result is final. A failure before the tool ran is not final, because the
    /// call had no effect and can be repeated. A failure is not final either if the call or a
    /// nested call waits for an approval, because the caller can then repeat the call to continue
    /// it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let needs_approval = self.result.error_code == Some(ErrorCode::ApprovalRequired);
        (self.has_tool_begun && !needs_approval) || self.result.success
    }
}

impl Executor {
    /// Creates an executor for the tools of `registry`, including tools that are registered later.
    #[must_use]
    pub fn new(registry: Arc<ToolRegistry>, config: ExecutorConfig) -> Self {
        Self::with_hooks(registry, config, ExecutorHooks::default())
    }

    /// Creates an executor like [`new`](Self::new), with hooks.
    #[must_use]
    pub fn with_hooks(
        registry: Arc<ToolRegistry>,
        config: ExecutorConfig,
        hooks: ExecutorHooks,
    ) -> Self {
        Self::from_shared(SharedExecutor {
            registry,
            queue: FairQueue::new(config.bounds()),
            checks: arguments::ArgumentChecks::new(&config),
            limiter: RateLimiter::new(config.rate_limits.clone()),
            cache: Arc::default(),
            config,
            hooks,
        })
    }

    fn from_shared(shared: SharedExecutor) -> Self {
        Self {
            shared: Arc::new(shared),
            caller_tools: None,
            overrides: None,
            own_queue: None,
        }
    }

    /// Returns this executor with additional tools for one caller. A registered tool takes
    /// precedence over a caller's tool of the same name.
    #[must_use]
    pub fn with_caller_tools(&self, tools: Arc<CallerOnlyTools>) -> Self {
        Self {
            caller_tools: Some(tools),
            ..self.clone()
        }
    }

    /// Returns this executor with overrides: a call goes through the whole pipeline, including
    /// limits, approvals and call log, but runs the override instead of the registered tool of the
    /// same name. An override needs its own [acting identity](crate::tool::Tool::acting_identity),
    /// so that it shares neither approvals nor cached results with the tool that it overrides.
    #[must_use]
    pub fn with_overrides(&self, tools: Arc<CallerOnlyTools>) -> Self {
        Self {
            overrides: Some(tools),
            ..self.clone()
        }
    }

    /// Returns this executor with separate permits, for calls that a tool makes while the tool
    /// holds a permit of this executor. With shared permits, a nested call could wait for the
    /// permit of its own caller. A tool that [makes calls](crate::tool::Tool::makes_calls) holds no
    /// permit and needs no separate permits.
    #[must_use]
    pub fn with_separate_permits(&self) -> Self {
        Self {
            own_queue: Some(FairQueue::new(self.shared.config.bounds())),
            ..self.clone()
        }
    }

    /// Returns whether calls of this tool need approval.
    #[must_use]
    pub fn requires_approval(&self, tool: &RegisteredTool) -> bool {
        let (config, registry) = (&self.shared.config, &self.shared.registry);
        config.approvals.requires_approval(tool, registry)
    }

    /// Returns the tool that a call with this name or alias runs. Without such a tool, returns the
    /// offered tool with one of the [repaired names](repaired_names), if there is one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.find_exact(name).or_else(|| {
            let find_offered = |name: &str| self.find_exact(name).filter(|tool| tool.is_offered());
            repaired_names(name).find_map(find_offered)
        })
    }

    fn find_exact(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let overrides = self.overrides.as_ref();
        let override_tool = overrides.and_then(|tools| find_by_any_name(tools, name).cloned());
        override_tool
            .or_else(|| self.shared.registry.get(name))
            .or_else(|| find_by_any_name(self.caller_tools.as_ref()?, name).cloned())
    }

    /// Returns an executor with a new configuration that shares this executor's registry,
    /// rate-limit counts and queue. Running and queued calls keep the configuration with which they
    /// started. The result cache starts empty, because cached results may come from tools that are
    /// no longer registered.
    #[must_use]
    pub fn reconfigured(&self, config: ExecutorConfig, hooks: ExecutorHooks) -> Self {
        let shared = &self.shared;
        shared.queue.set_bounds(config.bounds());
        Self::from_shared(SharedExecutor {
            registry: Arc::clone(&shared.registry),
            queue: Arc::clone(&shared.queue),
            checks: shared.checks.reconfigured(&config),
            limiter: shared.limiter.with_limits(config.rate_limits.clone()),
            cache: Arc::default(),
            config,
            hooks,
        })
    }

    /// Returns the maximum age of past calls that count toward the current rate limits and the
    /// cooldowns of the registered tools. Returns at least five minutes, because tools with a
    /// cooldown may be registered later.
    #[must_use]
    pub fn rate_limit_lookback(&self) -> Duration {
        self.shared.limiter.lookback(&self.shared.registry)
    }

    /// Delays calls of tools with a rate limit or a cooldown until the returned value is dropped.
    /// Drop the value after passing all past calls to [`count_past_calls`](Self::count_past_calls).
    #[must_use]
    pub fn begin_past_call_count(&self) -> PastCallCount {
        self.shared.limiter.begin_count()
    }

    /// Counts past calls, which ran before a restart or in another process, toward the rate limits.
    /// The order of the calls does not matter; pass each call only once.
    pub fn count_past_calls(&self, calls: impl IntoIterator<Item = PastCall>) {
        self.shared.limiter.count(calls, &self.shared.registry);
    }

    /// Returns the smallest of the configured maximum numbers of concurrent calls: of one source,
    /// of local tools, and of all sources together. A caller that runs at most this number of calls
    /// at once does not wait for its own calls, unless the calls use a server or tool with a lower
    /// limit.
    #[must_use]
    pub fn max_concurrent_calls(&self) -> std::num::NonZeroUsize {
        self.shared.config.max_concurrent_calls()
    }

    /// Returns the number of running and queued calls.
    #[must_use]
    pub fn load(&self) -> QueueLoad {
        self.shared.queue.load()
    }

    /// Returns the statistics of the result cache.
    #[must_use]
    pub fn cache_counts(&self) -> CacheCounts {
        self.shared.cache.counts()
    }

    /// Returns the tool registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        &self.shared.registry
    }

    /// Returns the maximum duration of a call whose tool is known only by its name.
    #[must_use]
    pub fn timeout_of(&self, name: &str) -> Duration {
        let config = &self.shared.config;
        config.configured_timeout(name).unwrap_or(config.timeout)
    }

    /// Looks up the tool that a call's name refers to.
    #[must_use]
    pub fn resolve(&self, call: ToolCall) -> ResolvedCall {
        ResolvedCall {
            tool: self.find(&call.name),
            call,
            wait_time: Duration::ZERO,
        }
    }

    /// Runs one call. Dropping the future cancels the call.
    pub async fn execute_one(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        let resolved = self.resolve(call);
        self.execute_resolved(resolved, context).await.result
    }

    /// Runs one call like [`execute_one`](Self::execute_one), without looking up its tool again.
    pub async fn execute_resolved(
        &self,
        resolved: ResolvedCall,
        context: &CallContext,
    ) -> CompletedCall {
        let hooks = &self.shared.hooks;
        let span = record::create_span(&resolved.call, resolved.tool.as_deref(), context);
        let run = async {
            let (call, tool) = (&resolved.call, resolved.tool.as_deref());
            let recorder = record::Recorder::start(call);
            let tracer = hooks.tracer.as_deref();
            let started_span = tracer.map(|tracer| start_span(tracer, tool, call, context));
            let (trace_span, traced_context) = started_span.unzip();
            let context = traced_context.as_deref().unwrap_or(context);
            let observer = hooks.observer.as_deref();
            let call_observer = observer.map(|observer| {
                CallObserver::start(observer, resolved.tool.clone(), call, context)
            });
            let journal = hooks.journal.as_ref();
            let entry = journal.map(|journal| journal.open(tool, call, context));
            let mut open_call = OpenCall::new(call_observer, entry);
            let max_bytes = output::max_failure_bytes(&self.shared.config, tool, context);
            let mut has_tool_begun = false;
            let outcome = self
                .run_pipeline(resolved, context, &mut open_call, &mut has_tool_begun)
                .await
                .map_err(|failure| output::shorten_failure(failure, max_bytes));
            let (mut result, response) = recorder.finish(outcome);
            let response_deadline = open_call.end(&mut result).await;
            if let Some(span) = trace_span {
                span.end(&result);
            }
            CompletedCall {
                result,
                has_tool_begun,
                response,
                response_deadline,
            }
        };
        run.instrument(span).await
    }

    /// Runs calls one after the other. Results are in the order of the calls.
    pub async fn execute(&self, calls: Vec<ToolCall>, context: &CallContext) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            results.push(self.execute_one(call, context).await);
        }
        results
    }

    /// Runs calls concurrently: at most `max_concurrent_total` at once, and at most as many of each
    /// source as the source's limit allows. Results are in the order of the calls.
    pub async fn execute_parallel(
        &self,
        calls: Vec<ToolCall>,
        context: &CallContext,
    ) -> Vec<ToolResult> {
        let resolve = |call| (self.resolve(call), context.clone());
        let calls = calls.into_iter().map(resolve);
        self.execute_parallel_resolved(calls)
            .await
            .into_iter()
            .map(|call| call.result)
            .collect()
    }

    /// Runs calls like [`execute_parallel`](Self::execute_parallel), and calls `on_finished` with
    /// the index and the result of each call when the call has ended, in any order. A call keeps
    /// its slot of the batch until the future of `on_finished` resolves.
    pub async fn execute_parallel_each<F>(
        &self,
        calls: Vec<ToolCall>,
        context: &CallContext,
        on_finished: impl Fn(usize, ToolResult) -> F,
    ) where
        F: Future<Output = ()>,
    {
        let resolve = |call| (self.resolve(call), context.clone());
        let on_finished = |index, call: CompletedCall| on_finished(index, call.result);
        self.run_batch(calls.into_iter().map(resolve), on_finished)
            .await;
    }

    /// Runs calls like [`execute_parallel`](Self::execute_parallel), each with its own context, and
    /// without looking up their tools again.
    pub async fn execute_parallel_resolved(
        &self,
        calls: impl IntoIterator<Item = (ResolvedCall, CallContext)>,
    ) -> Vec<CompletedCall> {
        let on_finished = |index, call| std::future::ready((index, call));
        let mut completed = self.run_batch(calls, on_finished).await;
        completed.sort_by_key(|(index, _)| *index);
        completed.into_iter().map(|(_, call)| call).collect()
    }

    /// Runs calls, and passes each finished call to `on_finished`, with its index. Returns what
    /// `on_finished` returns, in any order.
    async fn run_batch<F: Future>(
        &self,
        calls: impl IntoIterator<Item = (ResolvedCall, CallContext)>,
        on_finished: impl Fn(usize, CompletedCall) -> F,
    ) -> Vec<F::Output> {
        let calls = calls.into_iter().enumerate();
        let mut by_source = IndexMap::<_, Vec<_>>::new();
        for (index, (call, context)) in calls {
            let tool = call.tool.as_deref();
            // A call of a tool with a concurrency limit takes no slot of this batch, because other
            // calls could not use the slot while the call waits for its tool. The queue limits
            // these calls instead.
            let is_limited = tool.is_some_and(|tool| self.is_limited(tool));
            let source = tool.map(|tool| ToolSource::from(tool.origin()));
            let calls = by_source.entry(source.unwrap_or_default()).or_default();
            calls.push((index, call, context, is_limited));
        }
        let bounds = self.shared.config.bounds();
        let slots = Semaphore::new(bounds.max_running.min(Semaphore::MAX_PERMITS));
        let (slots, on_finished) = (&slots, &on_finished);
        let sources = by_source.into_iter().map(|(source, calls)| {
            let limited_count = calls.iter().filter(|(.., is_limited)| *is_limited).count();
            let max_concurrent = bounds.max_of_source(&source).saturating_add(limited_count);
            let calls = calls.into_iter();
            let runs = calls.map(move |(index, call, context, is_limited)| async move {
                // A batch starts at most as many calls as may run at once, so that one batch does
                // not fill the queue.
                let _slot = if is_limited {
                    None
                } else {
                    slots.acquire().await.ok()
                };
                let completed_call = self.execute_resolved(call, &context).await;
                on_finished(index, completed_call).await
            });
            let limited_runs = stream::iter(runs).buffer_unordered(max_concurrent);
            limited_runs.collect::<Vec<_>>()
        });
        join_all(sources).await.into_iter().flatten().collect()
    }

    /// Returns whether the number of concurrent calls of the tool is limited.
    fn is_limited(&self, tool: &RegisteredTool) -> bool {
        let limits = &self.shared.config.tool_concurrency;
        limits.contains_key(tool.name().as_str())
    }
}

/// Starts the trace span of a call, and returns the span with a context that refers to the span.
fn start_span(
    tracer: &dyn Tracer,
    tool: Option<&RegisteredTool>,
    call: &ToolCall,
    context: &CallContext,
) -> (Box<dyn CallSpan>, Box<CallContext>) {
    let origin = tool.map(RegisteredTool::origin);
    let span = tracer.start(call, origin, context);
    let trace = span.context().or_else(|| context.trace.clone());
    let context = context.clone();
    (span, Box::new(CallContext { trace, ..context }))
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod repair_tests;
#[cfg(test)]
mod tests;
