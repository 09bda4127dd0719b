//! The pipeline: the stages of every call, in order.
//!
//! | stage | where |
//! | --- | --- |
//! | resolve the tool, and accept the call if it is nested | `pipeline.rs` |
//! | read the arguments, and check them against the schema | `arguments.rs` |
//! | determine the acting identity | [`Tool::acting_identity`](crate::tool::Tool::acting_identity) |
//! | approve, and check arguments that the approver changed | `approval.rs`, `arguments.rs` |
//! | enter the gate | `gate.rs` |
//! | reserve memory for the result | `result_memory.rs` |
//! | check rate limits and cooldowns | `rate_limit.rs` |
//! | return a cached result | `cache.rs` |
//! | wait for a permit | `fair_queue.rs` |
//! | use up the approval, and record the start | `approval.rs`, `record.rs` |
//! | run the tool until its deadline | `pipeline.rs` |
//! | limit the output, and reserve the rest of its memory | `output.rs`, `result_memory.rs` |
//! | offload a large result | `output.rs` |
//!
//! [`Executor::execute_resolved`] begins the call before the first stage, and records its result
//! after the last stage (`record.rs`).

use std::sync::Arc;
use std::time::Duration;

use pillion_deadline::{timeout, timeout_at};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::fair_queue::PermitRequest;
use super::record::OpenCall;
use super::result_memory::Reservation;
use super::{
    ApprovalRequest, Approver, Executor, OversizedResult, ReadyCall, ResolvedCall, SharedExecutor,
    approval, arguments, cache, nested, output, record,
};
use crate::registry::RegisteredTool;
use crate::tool::{
    CallContext, ErrorCode, JsonObject, NestedCallHandle, Nesting, PausableClock, ToolFailure,
    ToolOutput, TraceContext,
};

/// Maximum length of an unknown tool name in an error message, in characters.
const MAX_NAME_CHARS: usize = 128;

/// The approver that approved a call, and the approved request. The call uses up this approval when
/// it runs.
type ApprovalToSpend<'a> = (&'a dyn Approver, &'a ApprovalRequest);

/// A call that may run.
struct ReadyToolRun<'a> {
    tool: &'a RegisteredTool,
    arguments: JsonObject,
    context: CallContext,
    /// The maximum duration of the call; `deadline` is the time at which that duration ends.
    limit: Duration,
    deadline: Instant,
    /// The pausable clock of a call that makes nested calls.
    clock: Option<Arc<PausableClock>>,
}

impl Executor {
    /// Runs the pipeline. Each stage returns what the next stage needs, or ends the call.
    ///
    /// The futures of the stages that few calls enter are boxed: the future of the pipeline is
    /// moved several times during every call, and is as large as the largest future inside.
    pub(super) async fn run_pipeline(
        &self,
        ResolvedCall {
            call,
            tool,
            wait_time,
        }: ResolvedCall,
        caller_context: &CallContext,
        open_call: &mut OpenCall<'_>,
        has_tool_begun: &mut bool,
    ) -> Result<ToolOutput, ToolFailure> {
        let SharedExecutor {
            registry,
            config,
            checks,
            limiter,
            cache,
            hooks,
            ..
        } = &*self.shared;
        let mut context = CallContext {
            call_id: call.id,
            acting_identity: None,
            approval_id: None,
            ..caller_context.clone()
        };

        let tool = require_tool(tool, &call.name)?;
        check_nesting(&tool, &call.name, &context)?;
        let mut parsed_arguments = arguments::parse(call.arguments, &context).await?;
        tool.restore_property_keys(&mut parsed_arguments.arguments);
        let checked_arguments = checks
            .check(config, &tool, parsed_arguments, &context)
            .await?;
        if checked_arguments.is_repaired {
            open_call.record_repaired_arguments(&checked_arguments.arguments);
        }
        let mut arguments = checked_arguments.arguments;
        let mut elapsed_time = wait_time + checked_arguments.elapsed;
        let limit = config.timeout_of(&tool);
        if let Some(acting_identity) = tool.tool().acting_identity(&context) {
            let started_at = Instant::now();
            let identity_outcome = timeout(limit.saturating_sub(elapsed_time), acting_identity)
                .await
                .unwrap_or_else(|_| Err(ToolFailure::timed_out(tool.name(), tool.origin(), limit)));
            context.acting_identity = Some(identity_outcome?);
            elapsed_time += started_at.elapsed();
        }
        let approver = hooks.approver.as_deref();
        let deadline = open_call.set_deadline(limit.saturating_sub(elapsed_time));
        let needs_approval = config.approvals.requires_approval(&tool, registry);
        let mut grant = if needs_approval || !context.denied.is_empty() {
            let (arguments, entry) = (&arguments, open_call.entry());
            Box::pin(approval::obtain(
                needs_approval,
                approver,
                &tool,
                arguments,
                &context,
                deadline,
                entry,
            ))
            .await?
        } else {
            None
        };
        if let Some(grant) = &grant {
            elapsed_time += grant.elapsed;
            context.approval_id = Some(grant.id.clone());
            // The tool does not get the trace context's `tracestate`, because it is free text that
            // the approver has not seen.
            context.trace = context.trace.map(TraceContext::without_state);
        }
        if let Some(grant) = &mut grant
            && let Some(edited_arguments) = grant.edited_arguments.take()
        {
            let checked_arguments =
                Box::pin(self.check_edited_arguments(&tool, edited_arguments, &context)).await?;
            elapsed_time += checked_arguments.elapsed;
            arguments = checked_arguments.arguments;
            open_call.record_edited_arguments(&arguments);
        }
        let request = grant.as_ref().and_then(|grant| grant.request.as_deref());
        // The connection of the acting identity is removed, because the user may have removed the
        // credential while the approver decided. The tool reads the credential again.
        if let (Some(acting_identity), Some(_)) = (&mut context.acting_identity, request) {
            acting_identity.connection = None;
        }
        if let Some(gate) = &hooks.gate {
            let ready_call = ReadyCall {
                tool: Arc::clone(&tool),
                arguments: arguments.clone(),
                context: context.clone(),
                approval: grant.as_ref().map(|grant| grant.id.clone()),
            };
            if let Some(output) = gate.enter(ready_call).await? {
                let size = output::size(&output);
                return output::check_size(&tool, output, size, config.max_output_bytes);
            }
        }
        let deadline = open_call.set_deadline(limit.saturating_sub(elapsed_time));
        limiter.wait_for_count(&tool, deadline).await?;
        let memory = caller_context.result_memory.as_ref();
        let reservation = Reservation::for_call(memory, &tool, deadline).await?;
        limiter.admit(&tool, &context.quota_account())?;
        let cache_request =
            cache::Request::for_call(&config.cache, &tool, &arguments, &context, deadline);
        let max_result_bytes = output::max_result_bytes(config, &tool, &context);
        let approval = approver.zip(request);
        let ready_run = ReadyToolRun {
            tool: &tool,
            arguments,
            context,
            limit,
            deadline,
            clock: None,
        };
        // The future is boxed, because the future of the pipeline would otherwise contain it twice:
        // once for each branch below.
        let run =
            Box::pin(self.run_tool(ready_run, approval, open_call, has_tool_begun, &reservation));
        let output = match cache_request {
            Some(request) => {
                let output = Box::pin(cache.get_or_run(request, limit, &reservation, run)).await?;
                if let (false, Some((approver, request))) = (*has_tool_begun, approval) {
                    // A call whose result comes from the cache uses up its approval, too, because
                    // the approver sees that the call has succeeded.
                    approval::spend(approver, request, deadline, open_call.entry()).await?;
                }
                output
            }
            None => run.await?,
        };
        let has_memory = !reservation.has_failed();
        let output = match output::Excess::for_output(&output, max_result_bytes, has_memory) {
            None => output,
            Some(excess) => {
                let result = OversizedResult {
                    tool,
                    context: caller_context.clone(),
                    output,
                };
                let result_store = hooks.result_store.as_deref();
                Box::pin(output::offload(
                    result_store,
                    result,
                    excess,
                    open_call.response_deadline(),
                ))
                .await?
            }
        };
        if !reservation.is_empty() {
            reservation.hand_over(output::size(&output));
        }
        Ok(output)
    }

    /// Validates the arguments that an approver has changed, in the same way as the call's own
    /// arguments.
    async fn check_edited_arguments(
        &self,
        tool: &Arc<RegisteredTool>,
        edited_arguments: JsonObject,
        context: &CallContext,
    ) -> Result<arguments::CheckedArguments, ToolFailure> {
        if !tool.tool().accepts_edited_arguments() {
            let message = format!(
                "The approver changed the arguments of the call to tool '{}', which this tool does \
                 not support",
                tool.name()
            );
            return Err(ToolFailure::new(ErrorCode::Denied, message));
        }
        let SharedExecutor { config, checks, .. } = &*self.shared;
        let context = CallContext {
            is_by_model: false,
            ..context.clone()
        };
        let parsed_arguments = edited_arguments.into();
        let check_outcome = checks.check(config, tool, parsed_arguments, &context).await;
        check_outcome.map_err(|mut failure| {
            failure.message = format!(
                "The arguments from the approver were rejected: {}",
                failure.message
            );
            failure
        })
    }

    /// Checks the arguments with which an approver wants to run a call of this tool. Returns the
    /// arguments with the schema's defaults filled in.
    ///
    /// # Errors
    /// `invalid_input` if the arguments do not match the schema; `denied` if the arguments of the
    /// tool's calls cannot be changed.
    pub async fn check_approved_arguments(
        &self,
        tool: &Arc<RegisteredTool>,
        edited_arguments: JsonObject,
        context: &CallContext,
    ) -> Result<JsonObject, ToolFailure> {
        let check_outcome = self
            .check_edited_arguments(tool, edited_arguments, context)
            .await;
        check_outcome.map(|checked| checked.arguments)
    }

    /// Runs the stages that a call with a cached result skips: from the wait for a permit to the
    /// limit on the output.
    async fn run_tool(
        &self,
        mut ready_run: ReadyToolRun<'_>,
        approval: Option<ApprovalToSpend<'_>>,
        open_call: &mut OpenCall<'_>,
        has_tool_begun: &mut bool,
        reservation: &Reservation,
    ) -> Result<ToolOutput, ToolFailure> {
        let SharedExecutor { config, queue, .. } = &*self.shared;
        let queue = self.own_queue.as_ref().unwrap_or(queue);
        let tool = ready_run.tool;
        let (queue_timeout, deadline) = (config.queue_timeout, ready_run.deadline);
        let makes_calls = tool.tool().makes_calls();
        // A call that waits for its nested calls must not hold a permit that the nested calls need.
        let _permit = if makes_calls {
            None
        } else {
            let request = PermitRequest::for_call(tool, ready_run.context.quota_account());
            Some(queue.acquire(request, queue_timeout, deadline).await?)
        };
        if let Some((approver, request)) = approval {
            approval::spend(approver, request, deadline, open_call.entry()).await?;
        }
        // The executor waits for the record only until the call's deadline, because the call log
        // may wait for a locked database.
        let record_outcome = tokio::time::timeout_at(deadline, open_call.record_running()).await;
        if let Some(record) = record_outcome.unwrap_or_else(|_| Err(record::late_failure()))? {
            ready_run.context.record = Some(record);
        }
        if makes_calls {
            let clock = Arc::<PausableClock>::default();
            let calls = nested::NestedCalls::new(self, &ready_run.context, Arc::clone(&clock));
            ready_run.context.nested_calls = Some(NestedCallHandle::new(calls));
            ready_run.clock = Some(clock);
        }
        *has_tool_begun = true;
        let output = run_until_deadline(ready_run).await?;
        let size = output::size(&output);
        tool.record_output_bytes(size);
        let output = output::check_size(tool, output, size, config.max_output_bytes)?;
        // The call keeps its permit while it waits, so there are at most as many waiting outputs as
        // permits.
        reservation.extend(size).await;
        Ok(output)
    }
}

/// Returns the tool, or a `not_found` failure.
fn require_tool(
    tool: Option<Arc<RegisteredTool>>,
    name: &str,
) -> Result<Arc<RegisteredTool>, ToolFailure> {
    tool.ok_or_else(|| {
        let shown_name: String = name.chars().take(MAX_NAME_CHARS).collect();
        ToolFailure::new(ErrorCode::NotFound, format!("Unknown tool: {shown_name}"))
    })
}

/// Accepts calls that are not nested, and nested calls that are allowed and within the nesting
/// limits.
fn check_nesting(
    tool: &RegisteredTool,
    name: &str,
    context: &CallContext,
) -> Result<(), ToolFailure> {
    let Some(nesting) = &context.nesting else {
        return Ok(());
    };
    if let Some(filter) = context.may_use.as_ref().filter(|_| !nesting.is_granted)
        && !filter.admits(tool.name().as_str(), tool.origin())
    {
        // A tool that the call may not use is reported as unknown, because the caller must not
        // learn that the tool exists.
        return require_tool(None, name).map(drop);
    }
    let limit_failure = |limit: String| {
        let message = format!("Nested tool calls are limited to {limit}");
        Err(ToolFailure::new(ErrorCode::InternalError, message))
    };
    let (max_depth, max_calls) = (Nesting::MAX_DEPTH, Nesting::MAX_CALLS);
    if nesting.depth > max_depth {
        return limit_failure(format!("{max_depth} levels"));
    }
    if nesting.count() > max_calls {
        return limit_failure(format!("{max_calls} for one call"));
    }
    Ok(())
}

/// Runs the tool in its own task, and waits until the call's deadline.
///
/// The task is aborted when the deadline passes or the caller cancels the call. A panic of the tool
/// fails only this call.
async fn run_until_deadline(ready_run: ReadyToolRun<'_>) -> Result<ToolOutput, ToolFailure> {
    let ReadyToolRun {
        tool,
        arguments,
        mut context,
        limit,
        deadline,
        clock,
    } = ready_run;
    let name = tool.name();
    let handler = Arc::clone(tool.tool());
    context.deadline = Some(deadline);
    // `call` runs inside the task, because `call` itself may panic before it returns a future.
    let run = async move { handler.call(arguments, context).await };
    // Log lines of the tool belong to the span of the call.
    let task = AbortOnDropHandle::new(tokio::spawn(run.in_current_span()));
    let join_outcome = match clock {
        None => timeout_at(deadline, task).await.ok(),
        Some(clock) => tokio::select! {
            biased;
            join_outcome = task => Some(join_outcome),
            // The future is boxed, because the future of every call would be larger otherwise.
            () = Box::pin(clock.wait_until(deadline)) => None,
        },
    };
    match join_outcome {
        Some(Ok(outcome)) => outcome,
        Some(Err(join_error)) if join_error.is_panic() => {
            tracing::error!(tool.name = %name, "Tool `{name}` panicked");
            let message = format!("Tool '{name}' failed unexpectedly");
            Err(ToolFailure::internal(message))
        }
        Some(Err(_)) => Err(ToolFailure::new(
            ErrorCode::Cancelled,
            format!("Tool '{name}' was cancelled"),
        )),
        None => Err(ToolFailure::timed_out(name, tool.origin(), limit)),
    }
}
