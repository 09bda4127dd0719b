use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use pillion_deadline::timeout_at;
use pillion_providers::{NativeCall, format_permits, format_results};
use tokio::time::Instant;

use super::{ChatLoop, save, timeout_error};
use crate::state::{CallProgress, PermittedCalls, Round, RoundCall, RoundResults};
use crate::{ChatError, ChatEvent, ChatListener, ChatState, EndedCall, Finish};

/// Maximum number of characters of a tool name in a message. The model may have invented the name.
const MAX_NAME_CHARS: usize = 128;

impl ChatLoop {
    /// Runs the calls of the last response that have not run yet, and adds the results to the
    /// conversation once every call has a result. Calls that need approval may still wait when this
    /// method returns.
    pub(super) async fn run_round(
        &self,
        state: &mut ChatState,
        context: &CallContext,
        deadline: Instant,
        listener: &mut dyn ChatListener,
    ) -> Result<(), ChatError> {
        let Some(round) = &mut state.round else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(timeout_error().into());
        }
        self.reject_hidden_calls(round, listener);
        let round_before = round.clone();
        let due_calls = begin_due_calls(round, context);
        if !due_calls.is_empty() {
            if let Some(status) = format_executing_status(&due_calls) {
                listener.on_event(ChatEvent::Status(status));
            }
            if let Err(error) = save(state, deadline, listener).await {
                state.round = Some(round_before);
                return Err(error);
            }
            self.run_calls(state, due_calls, deadline, listener).await;
        }
        let results = state.round.as_ref().and_then(Round::results);
        if let Some(results) = results {
            let RoundResults {
                call_results,
                permits,
            } = results;
            let messages = &mut state.conversation.messages;
            messages.extend(format_results(state.provider, &call_results));
            let native_calls = state.round.as_ref().map(Round::native_calls);
            let permission_requests = native_calls.unwrap_or_default();
            state.permitted_calls =
                PermittedCalls::for_round(messages.len(), permission_requests, &permits);
            messages.extend(format_permits(state.provider, &permits));
            state.round = None;
        }
        save(state, deadline, listener).await
    }

    /// Ends calls of tools that were not offered to the model, with an error as the result.
    fn reject_hidden_calls(&self, round: &mut Round, listener: &mut dyn ChatListener) {
        for call in &mut round.0 {
            let may_run = matches!(call.progress, CallProgress::Due | CallProgress::Waiting(_));
            let is_offered = if call.is_native {
                self.native_servers.has_tool(&call.call.name)
            } else {
                self.is_visible(&call.call.name)
            };
            if may_run && !is_offered {
                let message = format!("Unknown tool: {}", truncate_name(&call.call.name));
                call.end(failure(&call.call, ErrorCode::NotFound, message), listener);
            }
        }
    }

    fn is_visible(&self, name: &str) -> bool {
        let has_tool = |name: &str| self.tools.iter().any(|tool| tool.name().as_str() == name);
        has_tool(name)
            || self
                .runner
                .canonical_name(name)
                .is_some_and(|canonical_name| has_tool(&canonical_name))
    }

    /// Runs calls concurrently, or one after the other if the options require that order. Records
    /// each result as it arrives.
    async fn run_calls(
        &self,
        state: &mut ChatState,
        due_calls: Vec<DueCall>,
        deadline: Instant,
        listener: &mut dyn ChatListener,
    ) {
        let Some(round) = &mut state.round else {
            return;
        };
        let mut unfinished_indexes: Vec<usize> =
            due_calls.iter().map(|due_call| due_call.index).collect();
        let begun_indexes_mutex = Mutex::new(Vec::with_capacity(due_calls.len()));
        let listener_mutex = Mutex::new(listener);
        let (shared_indexes, shared_listener) = (&begun_indexes_mutex, &listener_mutex);
        let call_runs = due_calls.into_iter().map(|due_call| async move {
            let DueCall {
                index,
                call,
                is_native,
                context,
            } = due_call;
            shared_indexes.lock().push(index);
            if is_native {
                return (index, self.runner.permit(call, &context).await);
            }
            shared_listener
                .lock()
                .on_event(ChatEvent::ToolStarted(call.clone()));
            (index, self.runner.run(call, &context).await)
        });
        let max_concurrent = if self.options.one_call_at_a_time {
            1
        } else {
            self.runner.max_concurrent_calls().get()
        };
        let mut results = stream::iter(call_runs).buffer_unordered(max_concurrent);
        while let Ok(Some((index, result))) = timeout_at(deadline, results.next()).await {
            unfinished_indexes.retain(|unfinished_index| *unfinished_index != index);
            round.0[index].end(result, *listener_mutex.lock());
        }
        drop(results);
        // After the timeout, calls that have started end with an error; calls that have not started
        // may start in a later run.
        let begun_indexes = begun_indexes_mutex.into_inner();
        for index in unfinished_indexes {
            let call = &mut round.0[index];
            if begun_indexes.contains(&index) {
                let message = "The chat timed out before the call finished";
                let result = failure(&call.call, ErrorCode::Timeout, message);
                call.end(result, *listener_mutex.lock());
            } else {
                call.progress = CallProgress::Due;
            }
        }
    }
}

/// A call that is ready to run, with its context.
struct DueCall {
    index: usize,
    call: ToolCall,
    is_native: bool,
    context: CallContext,
}

/// Creates a round from the calls of a response and the provider's requests for permission to call
/// MCP tools itself. Calls beyond `max_calls`, and calls that may lack arguments because the
/// response was cut off, end with an error without running.
pub(super) fn begin_round(
    calls: Vec<ToolCall>,
    permission_requests: Vec<NativeCall>,
    finish: &Finish,
    max_calls: usize,
    listener: &mut dyn ChatListener,
) -> Round {
    let complete_call_count = count_complete_calls(finish, calls.len());
    let complete_request_count = count_complete_calls(finish, permission_requests.len());
    let model_calls = calls
        .into_iter()
        .enumerate()
        .map(|(index, call)| (call, false, index < complete_call_count));
    let native_calls = permission_requests
        .into_iter()
        .enumerate()
        .map(|(index, request)| (request.call, true, index < complete_request_count));
    let all_calls = model_calls.chain(native_calls).enumerate();
    let round_calls = all_calls.map(|(index, (call, is_native, is_complete))| {
        let mut round_call = RoundCall {
            call,
            is_native,
            progress: CallProgress::Due,
        };
        let reason = if !is_complete {
            Some("Not run: the response was cut off before the call was complete".into())
        } else if index >= max_calls {
            Some(format!(
                "Not run: a response may have at most {max_calls} tool calls"
            ))
        } else {
            None
        };
        if let Some(reason) = reason {
            let result = failure(&round_call.call, ErrorCode::InvalidInput, reason);
            round_call.end(result, listener);
        }
        round_call
    });
    Round(round_calls.collect())
}

/// Returns how many calls of a response are complete. In a response that reached its maximum
/// length, the last call is incomplete; in a filtered response, any part may be missing.
pub(super) fn count_complete_calls(finish: &Finish, call_count: usize) -> usize {
    match finish {
        Finish::Length => call_count.saturating_sub(1),
        Finish::Filtered => 0,
        _ => call_count,
    }
}

/// Returns the result of a call that was made although no tools were offered.
pub(super) fn reject_call(call: &ToolCall) -> ToolResult {
    failure(
        call,
        ErrorCode::InvalidInput,
        "Not run: no more tool calls are allowed",
    )
}

/// Ends calls that an earlier run had started, with an error as the result. Such a call may already
/// have had its effect, and no call may run twice.
pub(super) fn end_interrupted_calls(round: &mut Round, listener: &mut dyn ChatListener) {
    for call in &mut round.0 {
        if matches!(call.progress, CallProgress::Begun) && call.is_native {
            // Only the decision on the provider's own call was interrupted, not the call itself,
            // so the decision is made again.
            call.progress = CallProgress::Due;
        } else if matches!(call.progress, CallProgress::Begun) {
            let message = "The call was interrupted; whether it took effect is unknown";
            call.end(
                failure(&call.call, ErrorCode::InternalError, message),
                listener,
            );
        }
    }
}

/// Marks the due calls as begun and returns them. An approval in the context applies only to the
/// one call that waited for the approval; later calls with the same arguments need a new approval.
fn begin_due_calls(round: &mut Round, context: &CallContext) -> Vec<DueCall> {
    let mut due_calls = Vec::new();
    let mut unused_approvals = context.approved.clone();
    for (index, call) in round.0.iter_mut().enumerate() {
        let approval_id = match &call.progress {
            CallProgress::Due => None,
            CallProgress::Waiting(_) => call
                .to_waiting_call()
                .and_then(|waiting_call| waiting_call.approval_id),
            CallProgress::Begun | CallProgress::Ended(_) => continue,
        };
        let mut call_context = context.clone();
        // The arguments of the provider's own call are never repaired, because the provider runs
        // the call with the arguments that the model has written.
        call_context.is_by_model = !call.is_native;
        call_context.approved.clear();
        if let Some(id) = approval_id {
            call_context.approved.extend(unused_approvals.take(&id));
            call_context.approval.named = Some(id);
        }
        call.progress = CallProgress::Begun;
        due_calls.push(DueCall {
            index,
            call: call.call.clone(),
            is_native: call.is_native,
            context: call_context,
        });
    }
    due_calls
}

/// Returns the status line `Executing a, b...`; `None` if Pillion runs none of the due calls.
fn format_executing_status(due_calls: &[DueCall]) -> Option<String> {
    let tool_calls = due_calls.iter().filter(|due_call| !due_call.is_native);
    let names: Vec<_> = tool_calls
        .map(|due_call| truncate_name(&due_call.call.name))
        .collect();
    (!names.is_empty()).then(|| format!("Executing {}...", names.join(", ")))
}

fn truncate_name(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

fn failure(call: &ToolCall, code: ErrorCode, message: impl Into<String>) -> ToolResult {
    ToolResult::failure(&call.id, &call.name, code, message)
}

impl RoundCall {
    /// Records the result of a call and reports the result to the listener. An approved call that
    /// the provider runs itself is reported later, when a response contains its result.
    fn end(&mut self, result: ToolResult, listener: &mut dyn ChatListener) {
        self.record_result(result.clone());
        if self.is_native && result.success {
            return;
        }
        listener.on_event(match self.to_waiting_call() {
            Some(waiting_call) => ChatEvent::ToolWaiting(waiting_call),
            None => ChatEvent::ToolFinished(EndedCall {
                call: self.call.clone(),
                result,
            }),
        });
    }
}
