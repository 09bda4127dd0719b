use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use async_trait::async_trait;
use ext_php_rs::types::Zval;
use pillion_chat::ToolRunner;
use pillion_core::executor::Executor;
use pillion_core::job_channel::JobChannel;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolFailure, ToolResult};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::job::{ChatJob, current_job_sender};
use crate::exception::{self, PhpOutcome};
use crate::execution::PhpThread;
use crate::runtime::lock;
use crate::values::tool_call;
use crate::values::tool_result::to_tool_result;
use crate::wait::Job;
use crate::zend::{
    Failure, Object, entries, member, new_list, new_string, try_new_list, type_name, with_entry,
};

/// Runs the tool calls of a PHP executor: native and MCP tools run concurrently; at the same time,
/// PHP tools run one after the other. The timeout of a PHP tool starts when the tool starts to run.
pub(super) struct PhpRunner {
    pub(super) executor: Executor,
    /// The names of the PHP tools.
    pub(super) php_tool_names: HashSet<String>,
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
        let is_php_tool = name.is_some_and(|name| self.php_tool_names.contains(&name));
        let channel = JobChannel::<PhpThread>::find(context);
        let Some(channel) = channel.filter(|_| is_php_tool) else {
            return self.executor.execute_one(call, context).await;
        };
        let php_context = channel.context(context, true);
        let _turn = channel.acquire_turn().await;
        self.executor.execute_one(call, &php_context).await
    }
}

/// A request to the PHP thread to run tool calls. The response contains the results of the calls.
pub(super) type CallsJob = Job<CallBatch, Result<Vec<ToolResult>, ToolFailure>>;

/// The tool calls of one batch.
pub(super) struct CallBatch {
    pub(super) calls: Vec<ToolCall>,
    /// The IDs of the approvals for the calls of the batch.
    pub(super) approval_ids: HashSet<String>,
}

impl CallBatch {
    /// Runs the calls with the application's `executeParallel()`. The context contains only the
    /// approvals for the calls of this batch.
    ///
    /// # Errors
    /// A failure that must end the PHP request, such as a fatal error or `exit()` in a tool.
    pub(super) fn run(&self, executor: Object<'_>, context: &Zval) -> PhpOutcome<Vec<ToolResult>> {
        let call_context = if context.is_null() {
            new_list([])
        } else if member(context, "approved").is_some() {
            let approved_ids = self.approval_ids.iter().map(new_string);
            with_entry(context, "approved", new_list(approved_ids))
        } else {
            context.shallow_clone()
        };
        let calls = try_new_list(self.calls.iter().map(tool_call::new_call))?;
        let returned_value = executor.call("executeParallel", [calls, call_context]);
        let results = returned_value.and_then(|list| {
            entries(&list)
                .map(|(_, result)| {
                    to_tool_result(&result)?.ok_or_else(|| {
                        let result_type = type_name(&result);
                        Failure::error(format!(
                            "executeParallel() must return a list of Pillion\\ToolResult, \
                             but the list contains {result_type}"
                        ))
                    })
                })
                .collect::<Result<Vec<_>, _>>()
        });
        exception::catch_exception(results.map(Ok))
    }
}

/// A call, the IDs of the call's approvals, and the channel for the call's result.
type QueuedToolCall = (ToolCall, HashSet<String>, oneshot::Sender<ToolResult>);

/// Runs the calls with the `executeParallel()` method of the application's `ToolExecutor` subclass.
pub(super) struct ExtendedRunner {
    pub(super) executor: Executor,
    /// Concurrent calls that wait to be passed to PHP in one batch.
    pub(super) queue: Mutex<Vec<QueuedToolCall>>,
}

impl ExtendedRunner {
    async fn run_queued(&self) {
        let (mut calls, mut senders, mut approval_ids) = (Vec::new(), Vec::new(), HashSet::new());
        for (call, call_approval_ids, sender) in std::mem::take(&mut *lock(&self.queue)) {
            calls.push(call);
            approval_ids.extend(call_approval_ids);
            senders.push(sender);
        }
        let Some(job_sender) = current_job_sender().filter(|_| !calls.is_empty()) else {
            return;
        };
        let (job, response) = Job::new(CallBatch {
            calls: calls.clone(),
            approval_ids,
        });
        job_sender(ChatJob::Calls(job));
        let results = match response.await {
            Ok(Ok(results)) => order_results(&calls, results),
            Ok(Err(failure)) => fail_all(&calls, &failure),
            // The PHP thread dropped the batch without running the calls, so there are no results.
            Err(_) => return,
        };
        for (sender, result) in senders.into_iter().zip(results) {
            // The error of `send` is ignored: sending fails only if the receiver was dropped.
            drop(sender.send(result));
        }
    }
}

/// Returns one result for each call, in the order of the calls. Matches results by call ID; a call
/// without a result gets a failed result.
fn order_results(calls: &[ToolCall], mut results: Vec<ToolResult>) -> Vec<ToolResult> {
    let take_result = |call: &ToolCall| {
        let index = (results.iter()).position(|result| result.tool_call_id == call.id);
        index.map_or_else(
            || {
                let message = format!(
                    "executeParallel() returned no result for the call of tool '{}'",
                    call.name
                );
                new_failed_result(call, &ToolFailure::internal(message))
            },
            |index| results.swap_remove(index),
        )
    };
    calls.iter().map(take_result).collect()
}

fn new_failed_result(call: &ToolCall, failure: &ToolFailure) -> ToolResult {
    ToolResult::failure(&call.id, &call.name, failure.code, failure.message.clone())
}

fn fail_all(calls: &[ToolCall], failure: &ToolFailure) -> Vec<ToolResult> {
    calls
        .iter()
        .map(|call| new_failed_result(call, failure))
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
        let (sender, receiver) = oneshot::channel();
        let cancelled_result = ToolResult::failure(
            &call.id,
            &call.name,
            ErrorCode::Cancelled,
            "The call was cancelled",
        );
        lock(&self.queue).push((call, context.approved.clone(), sender));
        // The task yields before it takes the batch, so that calls that start at the same time join
        // the batch.
        yield_now().await;
        self.run_queued().await;
        receiver.await.unwrap_or(cancelled_result)
    }
}
