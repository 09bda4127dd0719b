//! Runs tool calls: every call ends in exactly one [`ToolResult`], and a failure never
//! affects a sibling (requirements C1 to C7).
//!
//! The stages of a call are the lines of `Executor::run_pipeline`, in order, each in a
//! file of its own. The result cache belongs between those that are there; a comment marks
//! the place.

mod approval;
mod arguments;
mod config;
mod gate;
mod journal;
mod observe;
mod output;
mod permit;
mod rate_limit;
mod record;
mod resolve;
mod run;
mod validate;

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::registry::ToolRegistry;
use crate::tool::{CallContext, ToolCall, ToolFailure, ToolOutput, ToolResult};
pub use approval::{
    ApprovalFuture, ApprovalPolicy, ApprovalRequest, ApprovalRules, Approver, Decision,
    SpendFuture, WaitingCallFuture,
};
pub use config::{ExecutorConfig, RateLimits, RateWindows};
pub use gate::{Gate, GateFuture, ReadyCall};
pub use journal::{Journal, Redaction};
pub use observe::Observer;
use observe::Watch;
use rate_limit::RateLimiter;

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
    permits: Arc<Semaphore>,
    limiter: RateLimiter,
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
        let places = config.max_concurrent.get().min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(places));
        let limiter = RateLimiter::new(config.rate_limits.clone());
        Self {
            shared: Arc::new(Shared {
                registry,
                config,
                permits,
                limiter,
                hooks,
            }),
        }
    }

    /// An executor with another configuration that goes on where this one is: over the same
    /// tools, and with the calls that the limits have counted. Calls
    /// that run keep what they began with; they take no place from the new one's unless
    /// `max_concurrent` is the same.
    #[must_use]
    pub fn reconfigured(&self, config: ExecutorConfig, hooks: ExecutorHooks) -> Self {
        let Shared {
            registry,
            config: old,
            permits,
            limiter,
            ..
        } = &*self.shared;
        let permits = if old.max_concurrent == config.max_concurrent {
            Arc::clone(permits)
        } else {
            let places = config.max_concurrent.get().min(Semaphore::MAX_PERMITS);
            Arc::new(Semaphore::new(places))
        };
        let limiter = limiter.with_limits(config.rate_limits.clone());
        Self {
            shared: Arc::new(Shared {
                registry: Arc::clone(registry),
                config,
                permits,
                limiter,
                hooks,
            }),
        }
    }

    /// The registry that the tools come from.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        &self.shared.registry
    }

    /// Runs one call. Dropping the future cancels the call.
    pub async fn execute_one(&self, call: ToolCall, context: &CallContext) -> ToolResult {
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
            let outcome = self.run_pipeline(call, context, entry.as_mut()).await;
            let mut result = recorder.finish(outcome);
            if let Some(entry) = entry {
                entry.end(&mut result).await;
            }
            if let Some(watch) = watch {
                watch.finish(&result);
            }
            result
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
    ) -> Result<ToolOutput, ToolFailure> {
        let Shared {
            registry,
            config,
            permits,
            limiter,
            hooks,
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
        // The result cache belongs here.
        let _permit = permit::acquire(permits, &tool, config.queue_timeout).await?;
        let request = granted
            .as_ref()
            .and_then(|granted| granted.request.as_ref());
        if let (Some(approver), Some(request)) = (approver, request) {
            approver.spend(request).await?;
        }
        if let Some(entry) = entry {
            entry.running().await?;
        }
        let deadline = config.timeout_of(tool.name().as_str());
        let output = run::within(deadline, &tool, arguments, context).await?;
        output::cap(&tool, output, config.max_output_bytes)
    }
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
