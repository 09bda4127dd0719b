//! The pipeline: the stages of every call, in order.
//!
//! | stage | where |
//! | --- | --- |
//! | resolve the tool, and accept the call if it is nested | `resolve.rs` |
//! | read the arguments, and check them against the schema | `arguments.rs` |
//! | determine the acting identity | [`Tool::acting_identity`](crate::tool::Tool::acting_identity) |
//! | approve, and check arguments that the approver changed | `approval.rs`, `arguments.rs` |
//! | enter the gate | `gate.rs` |
//! | reserve memory for the result | `result_memory.rs` |
//! | check rate limits and cooldowns | `rate_limit.rs` |
//! | answer from the cache | `cache.rs` |
//! | wait for a permit | `fair_queue.rs` |
//! | use up the approval, and record the start | `approval.rs`, `journal.rs` |
//! | run the tool until its deadline | `run.rs` |
//! | limit the output, and reserve the rest of its memory | `output.rs`, `result_memory.rs` |
//! | offload a large result | `output.rs` |
//!
//! [`Executor::execute_resolved`] begins the call before the first stage, and records its result
//! after the last stage (`record.rs`).

use std::sync::Arc;

use pillion_deadline::timeout;
use tokio::time::Instant;

use super::fair_queue::PermitRequest;
use super::record::Open;
use super::result_memory::Reservation;
use super::run::Ready;
use super::{
    ApprovalRequest, Approver, Executor, OversizedResult, ReadyCall, ResolvedCall, SharedExecutor,
    approval, arguments, cache, journal, nested, output, resolve, run,
};
use crate::registry::RegisteredTool;
use crate::tool::{
    CallContext, ErrorCode, FurtherCalls, JsonObject, PausableClock, ToolFailure, ToolOutput,
    TraceContext,
};

/// An approval that a call uses up.
type GrantedApproval<'a> = (&'a dyn Approver, &'a ApprovalRequest);

impl Executor {
    /// Runs the pipeline. Each stage returns what the next stage needs, or ends the call.
    ///
    /// The futures of the stages that few calls enter are boxed: the future of the pipeline is
    /// moved several times during every call, and is as large as the largest future inside.
    pub(super) async fn run_pipeline(
        &self,
        ResolvedCall { call, tool, waited }: ResolvedCall,
        caller_context: &CallContext,
        open: &mut Open<'_>,
        tool_began: &mut bool,
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

        let tool = resolve::found(tool, &call.name)?;
        resolve::admit(&tool, &call.name, &context)?;
        let mut parsed = arguments::parse(call.arguments, &context).await?;
        tool.restore_property_keys(&mut parsed.arguments);
        let checked = checks.check(config, &tool, parsed, &context).await?;
        if checked.is_repaired {
            open.record_repaired(&checked.arguments);
        }
        let (mut arguments, mut waited) = (checked.arguments, waited + checked.took);
        let limit = config.timeout_of(&tool);
        if let Some(acting_identity) = tool.tool().acting_identity(&context) {
            let began = Instant::now();
            let found = timeout(limit.saturating_sub(waited), acting_identity)
                .await
                .unwrap_or_else(|_| Err(run::timed_out(&tool, limit)));
            context.acting_identity = Some(found?);
            waited += began.elapsed();
        }
        let approver = hooks.approver.as_deref();
        let deadline = open.set_deadline(limit.saturating_sub(waited));
        let asks = config.approvals.requires_approval(&tool, registry);
        let mut granted = if asks || !context.denied.is_empty() {
            let (arguments, entry) = (&arguments, open.entry());
            Box::pin(approval::check(
                asks, approver, &tool, arguments, &context, deadline, entry,
            ))
            .await?
        } else {
            None
        };
        if let Some(granted) = &granted {
            waited += granted.took;
            context.approval_id = Some(granted.id.clone());
            // A tracestate is free text, which the approver has not seen.
            context.trace = context.trace.map(TraceContext::without_state);
        }
        if let Some(edited) = granted.as_mut().and_then(|granted| granted.edited.take()) {
            let checked = Box::pin(self.check_edited(&tool, edited, &context)).await?;
            waited += checked.took;
            arguments = checked.arguments;
            open.record_edited(&arguments);
        }
        let request = granted
            .as_ref()
            .and_then(|granted| granted.request.as_deref());
        // While an approver decides, the user may remove the credential.
        if let (Some(acting_identity), Some(_)) = (&mut context.acting_identity, request) {
            acting_identity.connection = None;
        }
        if let Some(gate) = &hooks.gate {
            let ready = ReadyCall {
                tool: Arc::clone(&tool),
                arguments: arguments.clone(),
                context: context.clone(),
                approval: granted.as_ref().map(|granted| granted.id.clone()),
            };
            if let Some(output) = gate.enter(ready).await? {
                let size = output::size(&output);
                return output::cap(&tool, output, size, config.max_output_bytes);
            }
        }
        let deadline = open.set_deadline(limit.saturating_sub(waited));
        limiter.wait_for_count(&tool, deadline).await?;
        let memory = caller_context.result_memory.as_ref();
        let reservation = Reservation::for_call(memory, &tool, deadline).await?;
        limiter.admit(&tool, &context.quota_account())?;
        let cache_request =
            cache::Request::for_call(&config.cache, &tool, &arguments, &context, deadline);
        let max_result_bytes = output::max_result_bytes(config, &tool, &context);
        let approval = approver.zip(request);
        let ready = Ready {
            tool: &tool,
            arguments,
            context,
            limit,
            deadline,
            clock: None,
        };
        // On the heap, because two branches hold the future.
        let run = Box::pin(self.run_tool(ready, approval, open, tool_began, &reservation));
        let output = match cache_request {
            Some(request) => {
                let output = Box::pin(cache.get_or_run(request, limit, &reservation, run)).await?;
                if let (false, Some((approver, request))) = (*tool_began, approval) {
                    // A cached result uses up the approval too: the approver sees the call succeed.
                    approval::spend(approver, request, deadline, open.entry()).await?;
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
                    open.respond_by(),
                ))
                .await?
            }
        };
        if !reservation.is_empty() {
            reservation.hand_over(output::size(&output));
        }
        Ok(output)
    }

    /// Checks arguments that an approver has changed, as the arguments of the call were checked.
    async fn check_edited(
        &self,
        tool: &Arc<RegisteredTool>,
        edited: JsonObject,
        context: &CallContext,
    ) -> Result<arguments::Checked, ToolFailure> {
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
        let checked = checks.check(config, tool, edited.into(), &context).await;
        checked.map_err(|mut failure| {
            failure.message = format!("The arguments of the approver: {}", failure.message);
            failure
        })
    }

    /// Checks arguments that an approver wants a call of this tool to run with. Returns the
    /// arguments with the schema's defaults filled in.
    ///
    /// # Errors
    /// `invalid_input` if the arguments do not match the schema; `denied` if the arguments of the
    /// tool's calls cannot be changed.
    pub async fn check_approved_arguments(
        &self,
        tool: &Arc<RegisteredTool>,
        edited: JsonObject,
        context: &CallContext,
    ) -> Result<JsonObject, ToolFailure> {
        let checked = self.check_edited(tool, edited, context).await;
        checked.map(|checked| checked.arguments)
    }

    /// Runs the stages that follow if no cached result answers the call.
    async fn run_tool(
        &self,
        mut ready: Ready<'_>,
        approval: Option<GrantedApproval<'_>>,
        open: &mut Open<'_>,
        tool_began: &mut bool,
        reservation: &Reservation,
    ) -> Result<ToolOutput, ToolFailure> {
        let SharedExecutor { config, queue, .. } = &*self.shared;
        let queue = self.own_queue.as_ref().unwrap_or(queue);
        let tool = ready.tool;
        let queue_timeout = config.queue_timeout;
        let makes_calls = tool.tool().makes_calls();
        // A call that waits for its nested calls must not hold a permit that they need.
        let _permit = if makes_calls {
            None
        } else {
            let request = PermitRequest::for_call(tool, ready.context.quota_account());
            Some(
                queue
                    .acquire(request, queue_timeout, ready.deadline)
                    .await?,
            )
        };
        if let Some((approver, request)) = approval {
            approval::spend(approver, request, ready.deadline, open.entry()).await?;
        }
        // Ends at the call's deadline, because the log waits for a locked database.
        let recorded = tokio::time::timeout_at(ready.deadline, open.record_running()).await;
        if let Some(record) = recorded.unwrap_or_else(|_| Err(journal::late()))? {
            ready.context.record = Some(record);
        }
        if makes_calls {
            let time = Arc::<PausableClock>::default();
            let calls = nested::NestedCalls::new(self, &ready.context, Arc::clone(&time));
            ready.context.further_calls = Some(FurtherCalls::new(calls));
            ready.clock = Some(time);
        }
        *tool_began = true;
        let output = run::until(ready).await?;
        let size = output::size(&output);
        tool.record_output_bytes(size);
        let output = output::cap(tool, output, size, config.max_output_bytes)?;
        // The call keeps its permit while it waits, so there are at most as many waiting outputs as
        // permits.
        reservation.extend(size).await;
        Ok(output)
    }
}
