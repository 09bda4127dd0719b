use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ext_php_rs::types::Zval;
use pillion_chat::ToolRunner;
use pillion_core::executor::Executor;
use pillion_core::job_channel::JobChannel;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolFailure, ToolResult};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::job::{ChatJob, current_job_sender};
use crate::exception::{self, Caught};
use crate::execution::PhpThread;
use crate::values::tool_call;
use crate::values::tool_result::result_of;
use crate::wait::Job;
use crate::zend::{Failure, Object, entries, list_of, member, string_of, type_name, with_entry};

/// Runs the tool calls of a PHP executor: native and MCP tools run concurrently; at the same time,
/// PHP tools run one after the other. The timeout of a PHP tool starts when its turn comes.
pub(super) struct PhpRunner {
    pub(super) executor: Executor,
    /// The names of the PHP tools.
    pub(super) in_php: HashSet<String>,
}

#[async_trait]
impl ToolRunner for PhpRunner {
    fn canonical_name(&self, name: &str) -> Option<String> {
        Some(self.executor.find(name)?.name().to_string())
    }

    fn max_concurrent_calls(&self) -> NonZeroUsize {
        self.executor.max_concurrent_calls()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        let name = self.canonical_name(&call.name);
        let is_php = name.is_some_and(|name| self.in_php.contains(&name));
        let channel = JobChannel::<PhpThread>::find(context);
        let Some(channel) = channel.filter(|_| is_php) else {
            return self.executor.execute_one(call, context).await;
        };
        let context = channel.context(context, true);
        let _turn = channel.acquire_turn().await;
        self.executor.execute_one(call, &context).await
    }
}

/// A request to the PHP thread to run tool calls, answered with their results.
pub(super) type CallsJob = Job<CallBatch, Result<Vec<ToolResult>, ToolFailure>>;

/// Tool calls that run together.
pub(super) struct CallBatch {
    pub(super) calls: Vec<ToolCall>,
    /// The IDs of the approvals for these calls.
    pub(super) approved: HashSet<String>,
}

impl CallBatch {
    /// Runs the calls with the application's `executeParallel()`. Of the approvals in the context,
    /// passes only those for these calls.
    ///
    /// # Errors
    /// A failure that must end the PHP request.
    pub(super) fn run(&self, executor: Object<'_>, context: &Zval) -> Caught<Vec<ToolResult>> {
        let context = if context.is_null() {
            list_of([])
        } else if member(context, "approved").is_some() {
            let approved = self.approved.iter().map(string_of);
            with_entry(context, "approved", list_of(approved))
        } else {
            context.shallow_clone()
        };
        let calls = self.calls.iter().map(tool_call::new_call);
        let calls = list_of(calls.collect::<Result<Vec<_>, _>>()?);
        let returned = executor.call("executeParallel", [calls, context]);
        let results = returned.and_then(|list| {
            entries(&list)
                .map(|(_, result)| {
                    result_of(&result)?.ok_or_else(|| {
                        let kind = type_name(&result);
                        Failure::error(format!("executeParallel() must return results, not {kind}"))
                    })
                })
                .collect::<Result<Vec<_>, _>>()
        });
        exception::catch(results.map(Ok))
    }
}

/// A call, its approvals, and the channel for its result.
type QueuedToolCall = (ToolCall, HashSet<String>, oneshot::Sender<ToolResult>);

/// Runs the calls with `executeParallel()` of an executor class that the application has extended.
pub(super) struct ExtendedRunner {
    pub(super) executor: Executor,
    /// Concurrent calls that wait to be passed to PHP in one batch.
    pub(super) queue: Mutex<Vec<QueuedToolCall>>,
}

impl ExtendedRunner {
    fn queue(&self) -> std::sync::MutexGuard<'_, Vec<QueuedToolCall>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_queued(&self) {
        let (mut calls, mut senders, mut approved) = (Vec::new(), Vec::new(), HashSet::new());
        for (call, approvals, sender) in std::mem::take(&mut *self.queue()) {
            calls.push(call);
            approved.extend(approvals);
            senders.push(sender);
        }
        let Some(jobs) = current_job_sender().filter(|_| !calls.is_empty()) else {
            return;
        };
        let (job, done) = Job::new(CallBatch {
            calls: calls.clone(),
            approved,
        });
        jobs(ChatJob::Calls(job));
        let results = match done.await {
            Ok(Ok(results)) => order_results(&calls, results),
            Ok(Err(failure)) => fail_all(&calls, &failure),
            // The receiver was dropped, so the results are no longer needed.
            Err(_) => return,
        };
        for (sender, result) in senders.into_iter().zip(results) {
            // Sending fails only if the receiver was dropped.
            drop(sender.send(result));
        }
    }
}

/// Returns the result of each call, matched by ID; a call without a result fails.
fn order_results(calls: &[ToolCall], mut results: Vec<ToolResult>) -> Vec<ToolResult> {
    let none = ToolFailure::internal("executeParallel() has no result for this call");
    let result = |call: &ToolCall| {
        let index = (results.iter()).position(|result| result.tool_call_id == call.id);
        index.map_or_else(
            || failed_result(call, &none),
            |index| results.swap_remove(index),
        )
    };
    calls.iter().map(result).collect()
}

fn failed_result(call: &ToolCall, why: &ToolFailure) -> ToolResult {
    ToolResult::failure(&call.id, &call.name, why.code, why.message.clone())
}

fn fail_all(calls: &[ToolCall], failure: &ToolFailure) -> Vec<ToolResult> {
    calls
        .iter()
        .map(|call| failed_result(call, failure))
        .collect()
}

#[async_trait]
impl ToolRunner for ExtendedRunner {
    fn canonical_name(&self, name: &str) -> Option<String> {
        Some(self.executor.find(name)?.name().to_string())
    }

    fn max_concurrent_calls(&self) -> NonZeroUsize {
        self.executor.max_concurrent_calls()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        let (sender, result) = oneshot::channel();
        let cancelled = ToolResult::failure(
            &call.id,
            &call.name,
            ErrorCode::Cancelled,
            "The call was cancelled",
        );
        self.queue().push((call, context.approved.clone(), sender));
        // The task yields, so that calls that start at the same time join the batch.
        yield_now().await;
        self.run_queued().await;
        result.await.unwrap_or(cancelled)
    }
}
