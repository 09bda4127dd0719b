//! Runs tool calls: every call ends in exactly one [`ToolResult`], and a failure never
//! affects a sibling (requirements C1 to C7).
//!
//! The stages of a call are the lines of `Executor::run_pipeline` and `Executor::run_tool`, in
//! order, each in a file of its own.

mod approval;
mod arguments;
mod cache;
mod config;
mod fair_queue;
mod gate;
mod journal;
mod observe;
mod output;
mod rate_limit;
mod record;
mod resolve;
mod run;
mod spill;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;
use tracing::Instrument;

use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::{CallContext, JsonObject, ToolCall, ToolFailure, ToolOutput, ToolResult};
pub use approval::{
    ApprovalFuture, ApprovalPolicy, ApprovalRequest, ApprovalRules, Approver, Decision,
    SpendFuture, WaitingCallFuture,
};
use cache::ResultCache;
pub use cache::{CacheConfig, CacheCounts, CacheRule, CacheScope};
pub use config::{ExecutorConfig, RateLimits, RateWindows};
use fair_queue::FairQueue;
pub use fair_queue::Load;
pub use gate::{Gate, GateFuture, ReadyCall};
pub use journal::{Journal, Redaction};
pub use observe::Observer;
use observe::Watch;
pub use rate_limit::PastCall;
use rate_limit::RateLimiter;
pub use spill::{BigResult, Spill, SpillFuture, Spilled};

/// Takes calls through the pipeline. Cheap to clone; clones share limits and permits.
///
/// It must be used inside a tokio runtime: each tool runs as a task of its own, so that a
/// tool that blocks its thread cannot keep a caller past its deadline.
///
/// The [crate root](crate) has an example.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<ToolRegistry>,
    config: ExecutorConfig,
    queue: Arc<FairQueue>,
    limiter: RateLimiter,
    cache: Arc<ResultCache>,
    hooks: ExecutorHooks,
}

/// Who takes part in an executor's calls beside the tools. Nobody by default.
#[derive(Clone, Default)]
pub struct ExecutorHooks {
    /// Decides on calls that need approval (G3). Without one they end as
    /// `approval_required`, unless their context brings the decision along.
    pub approver: Option<Arc<dyn Approver>>,
    /// Is asked last before a call runs.
    pub gate: Option<Arc<dyn Gate>>,
    /// Keeps every call in a call log (F4).
    pub journal: Option<Journal>,
    /// Sees calls begin and end.
    pub observer: Option<Arc<dyn Observer>>,
    /// Keeps results that are larger than `max_result_bytes`; without one they are failures.
    pub spill: Option<Arc<dyn Spill>>,
}

/// A call that is over.
#[derive(Debug, Clone)]
pub struct Ended {
    /// What came of it.
    pub result: ToolResult,
    /// Whether its tool was begun. It is not for a call that failed before, or was answered
    /// from elsewhere: such a call has changed nothing.
    pub tool_began: bool,
}

impl Executor {
    /// An executor over the tools of `registry`, present and future.
    #[must_use]
    pub fn new(registry: Arc<ToolRegistry>, config: ExecutorConfig) -> Self {
        Self::with_hooks(registry, config, ExecutorHooks::default())
    }

    /// As [`new`](Self::new), with an approver, a gate and an observer.
    #[must_use]
    pub fn with_hooks(
        registry: Arc<ToolRegistry>,
        config: ExecutorConfig,
        hooks: ExecutorHooks,
    ) -> Self {
        let queue = FairQueue::new(config.max_concurrent.get(), config.max_queued);
        let limiter = RateLimiter::new(config.rate_limits.clone());
        Self {
            shared: Arc::new(Shared {
                registry,
                config,
                queue,
                limiter,
                cache: Arc::default(),
                hooks,
            }),
        }
    }

    /// An executor with another configuration that goes on where this one is: over the same
    /// tools, with the calls that the limits have counted, and those that run or wait. They
    /// keep what they began with. Kept results are not among it: they may come from what is
    /// no longer there.
    #[must_use]
    pub fn reconfigured(&self, config: ExecutorConfig, hooks: ExecutorHooks) -> Self {
        let Shared {
            registry,
            queue,
            limiter,
            ..
        } = &*self.shared;
        queue.set_bounds(config.max_concurrent.get(), config.max_queued);
        let limiter = limiter.with_limits(config.rate_limits.clone());
        Self {
            shared: Arc::new(Shared {
                registry: Arc::clone(registry),
                config,
                queue: Arc::clone(queue),
                limiter,
                cache: Arc::default(),
                hooks,
            }),
        }
    }

    /// How far back past calls have to be counted for the limits that hold now, for the
    /// cooldowns of the tools that there are, and for those, up to five minutes, of tools that are
    /// registered later.
    #[must_use]
    pub fn limits_look_back(&self) -> Duration {
        self.shared.limiter.look_back(&self.shared.registry)
    }

    /// Has calls count towards the limits that were let through elsewhere: before a restart, or
    /// by another process. Their order does not matter; each must be given only once.
    pub fn count_past_calls(&self, calls: impl IntoIterator<Item = PastCall>) {
        self.shared.limiter.count(calls, &self.shared.registry);
    }

    /// How many calls run and wait.
    #[must_use]
    pub fn load(&self) -> Load {
        self.shared.queue.load()
    }

    /// How the cache of results is doing.
    #[must_use]
    pub fn cache_counts(&self) -> CacheCounts {
        self.shared.cache.counts()
    }

    /// The registry that the tools come from.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        &self.shared.registry
    }

    /// Runs one call. Dropping the future cancels the call.
    pub async fn execute_one(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.execute_to_its_end(call, context).await.result
    }

    /// As [`execute_one`](Self::execute_one), and says whether the tool was begun.
    pub async fn execute_to_its_end(&self, call: ToolCall, context: &CallContext) -> Ended {
        let Shared {
            registry, hooks, ..
        } = &*self.shared;
        let span = record::span(&call, registry, context);
        let run = async {
            let recorder = record::Recorder::start(&call);
            let observer = hooks.observer.as_deref();
            let watch = observer.map(|observer| Watch::start(observer, registry, &call, context));
            let journal = hooks.journal.as_ref();
            let mut entry = journal.map(|journal| journal.open(registry, &call, context));
            let mut tool_began = false;
            let outcome = self
                .run_pipeline(call, context, entry.as_mut(), &mut tool_began)
                .await;
            let mut result = recorder.finish(outcome);
            if let Some(entry) = entry {
                entry.end(&mut result).await;
            }
            if let Some(watch) = watch {
                watch.finish(&result);
            }
            Ended { result, tool_began }
        };
        run.instrument(span).await
    }

    /// Runs calls one after the other (C1); the results are in the order of the calls.
    pub async fn execute(&self, calls: Vec<ToolCall>, context: &CallContext) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            results.push(self.execute_one(call, context).await);
        }
        results
    }

    /// Runs calls side by side, at most `max_concurrent` at once (C1); the results are in
    /// the order of the calls, whichever ended first.
    pub async fn execute_parallel(
        &self,
        calls: Vec<ToolCall>,
        context: &CallContext,
    ) -> Vec<ToolResult> {
        let at_once = self.shared.config.max_concurrent.get();
        let runs = calls
            .into_iter()
            .enumerate()
            .map(|(place, call)| async move { (place, self.execute_one(call, context).await) });
        let mut results: Vec<_> = stream::iter(runs).buffer_unordered(at_once).collect().await;
        results.sort_by_key(|(place, _)| *place);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// The pipeline. A stage either hands on what the next one needs or ends the call.
    async fn run_pipeline(
        &self,
        call: ToolCall,
        context: &CallContext,
        mut entry: Option<&mut journal::Entry>,
        tool_began: &mut bool,
    ) -> Result<ToolOutput, ToolFailure> {
        let Shared {
            registry,
            config,
            limiter,
            cache,
            hooks,
            ..
        } = &*self.shared;
        let context = CallContext {
            call_id: call.id,
            ..context.clone()
        };

        let tool = resolve::tool(registry, &call.name)?;
        let arguments = arguments::parse(call.arguments)?;
        let arguments = validate::against_schema(&tool, arguments)?;
        let approver = hooks.approver.as_deref();
        let granted = approval::pass(
            &config.approvals,
            registry,
            approver,
            &tool,
            &arguments,
            &context,
            entry.as_deref_mut(),
        )
        .await?;
        if let Some(gate) = &hooks.gate {
            let ready = ReadyCall {
                tool: Arc::clone(&tool),
                arguments: arguments.clone(),
                context: context.clone(),
                approval: granted.as_ref().map(|granted| granted.id.clone()),
            };
            if let Some(output) = gate.enter(ready).await? {
                return output::cap(&tool, output, config.max_output_bytes);
            }
        }
        limiter.admit(&tool, context.user.as_deref())?;
        let limit = config.timeout_of(tool.name().as_str());
        let deadline = Instant::now() + limit;
        let asked = cache::Request::of(&config.cache, &tool, &arguments, &context, deadline);
        let bound = spill::Bound::of(config, &tool, &context);
        let request = granted
            .as_ref()
            .and_then(|granted| granted.request.as_ref());
        let approval = approver.zip(request);
        let ready = Ready {
            tool: &tool,
            arguments,
            context,
            approval,
            limit,
            deadline,
        };
        let run = self.run_tool(ready, entry, tool_began);
        let output = match asked {
            Some(asked) => {
                let output = cache.pass(asked, limit, run).await?;
                if let (false, Some((approver, request))) = (*tool_began, approval) {
                    // Whoever approved of this call has seen it succeed.
                    approver.spend(request).await?;
                }
                output
            }
            None => run.await?,
        };
        match bound {
            Some(bound) => bound.pass(hooks.spill.as_deref(), &tool, output).await,
            None => Ok(output),
        }
    }

    /// The stages of a call that no kept result answers.
    async fn run_tool(
        &self,
        ready: Ready<'_>,
        entry: Option<&mut journal::Entry>,
        tool_began: &mut bool,
    ) -> Result<ToolOutput, ToolFailure> {
        let Shared { config, queue, .. } = &*self.shared;
        let (tool, user) = (ready.tool, ready.context.user.as_deref());
        let patience = config.queue_timeout;
        let _place = queue.place(tool, user, patience, ready.deadline).await?;
        if let Some((approver, request)) = ready.approval {
            approver.spend(request).await?;
        }
        if let Some(entry) = entry {
            entry.running().await?;
        }
        *tool_began = true;
        let output = run::until(ready).await?;
        output::cap(tool, output, config.max_output_bytes)
    }
}

/// A call that may run.
struct Ready<'a> {
    tool: &'a RegisteredTool,
    arguments: JsonObject,
    context: CallContext,
    /// The approval that it uses up, if it needs one.
    approval: Option<(&'a dyn Approver, &'a ApprovalRequest)>,
    /// How long it may take, from here on, and when that is over.
    limit: Duration,
    deadline: Instant,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
