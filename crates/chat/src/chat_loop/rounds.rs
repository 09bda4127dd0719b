use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use pillion_deadline::timeout_at;
use pillion_providers::{NativeCall, format_permits, format_results};
use tokio::time::Instant;

use super::{ChatLoop, save, timeout_error};
use crate::state::{CallProgress, Permitted, Results, Round, RoundCall};
use crate::{ChatError, ChatEvent, ChatListener, ChatState, EndedCall, Finish};

/// Maximum number of characters of a tool name in a message. The model may have invented the name.
const MAX_NAME_LEN: usize = 128;

impl ChatLoop {
    /// Runs the calls of the last response that have not run yet, and adds the results to the
    /// conversation when all calls have one. Some calls may wait for approval after that.
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
        self.reject_hidden(round, listener);
        let before = round.clone();
        let due = begin(round, context);
        if !due.is_empty() {
            if let Some(line) = executing_status(&due) {
                listener.on_event(ChatEvent::Status(line));
            }
            if let Err(error) = save(state, deadline, listener).await {
                state.round = Some(before);
                return Err(error);
            }
            self.run_calls(state, due, deadline, listener).await;
        }
        let results = state.round.as_ref().and_then(Round::results);
        if let Some(results) = results {
            let Results { calls, permits } = results;
            let messages = &mut state.conversation.messages;
            messages.extend(format_results(state.provider, &calls));
            let native = state.round.as_ref().map(Round::native_calls);
            let permission_requests = native.unwrap_or_default();
            state.permitted = Permitted::for_round(messages.len(), permission_requests, &permits);
            messages.extend(format_permits(state.provider, &permits));
            state.round = None;
        }
        save(state, deadline, listener).await
    }

    /// Ends calls of tools that the model did not see.
    fn reject_hidden(&self, round: &mut Round, listener: &mut dyn ChatListener) {
        for call in &mut round.0 {
            let may_run = matches!(call.progress, CallProgress::Due | CallProgress::Waiting(_));
            let is_known = if call.is_native {
                self.native.has(&call.call.name)
            } else {
                self.is_visible(&call.call.name)
            };
            if may_run && !is_known {
                let message = format!("Unknown tool: {}", truncate_name(&call.call.name));
                call.end(failure(&call.call, ErrorCode::NotFound, message), listener);
            }
        }
    }

    fn is_visible(&self, name: &str) -> bool {
        let is_one = |name: &str| self.tools.iter().any(|tool| tool.name().as_str() == name);
        is_one(name)
            || self
                .runner
                .canonical_name(name)
                .is_some_and(|name| is_one(&name))
    }

    /// Runs calls concurrently, or one after the other if the options require it, and records each
    /// result when it arrives.
    async fn run_calls(
        &self,
        state: &mut ChatState,
        due: Vec<DueCall>,
        deadline: Instant,
        listener: &mut dyn ChatListener,
    ) {
        let Some(round) = &mut state.round else {
            return;
        };
        let mut unfinished: Vec<usize> = due.iter().map(|due| due.index).collect();
        let begun = Mutex::new(Vec::with_capacity(due.len()));
        let listener = Mutex::new(listener);
        let (begun_calls, shared_listener) = (&begun, &listener);
        let runs = due.into_iter().map(|due| async move {
            let DueCall {
                index,
                call,
                is_native,
                context,
            } = due;
            begun_calls.lock().push(index);
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
        let mut ends = stream::iter(runs).buffer_unordered(max_concurrent);
        while let Ok(Some((index, result))) = timeout_at(deadline, ends.next()).await {
            unfinished.retain(|other| *other != index);
            round.0[index].end(result, *listener.lock());
        }
        drop(ends);
        // After the timeout, calls that have started are cut off; calls that have not started may
        // start in a later run.
        let begun = begun.into_inner();
        for index in unfinished {
            let call = &mut round.0[index];
            if begun.contains(&index) {
                let message = "The chat timed out before the call finished";
                let result = failure(&call.call, ErrorCode::Timeout, message);
                call.end(result, *listener.lock());
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

/// Creates the round of a response's calls and permission requests. Calls beyond `max_calls`, and
/// calls that the end of the response cut off and that may have lost arguments, end at once.
pub(super) fn begin_round(
    calls: Vec<ToolCall>,
    permission_requests: Vec<NativeCall>,
    finish: &Finish,
    max_calls: usize,
    listener: &mut dyn ChatListener,
) -> Round {
    let complete_calls = count_complete(finish, calls.len());
    let complete_requests = count_complete(finish, permission_requests.len());
    let model_calls = calls
        .into_iter()
        .enumerate()
        .map(|(index, call)| (call, false, index < complete_calls));
    let native_calls = permission_requests
        .into_iter()
        .enumerate()
        .map(|(index, request)| (request.call, true, index < complete_requests));
    let all_calls = model_calls.chain(native_calls).enumerate();
    let calls = all_calls.map(|(index, (call, is_native, is_complete))| {
        let mut call = RoundCall {
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
            let failure = failure(&call.call, ErrorCode::InvalidInput, reason);
            call.end(failure, listener);
        }
        call
    });
    Round(calls.collect())
}

/// Returns how many of a response's calls are complete: a response that reached its length is cut
/// off in the last call, and a filtered response may lack any part.
pub(super) fn count_complete(finish: &Finish, calls: usize) -> usize {
    match finish {
        Finish::Length => calls.saturating_sub(1),
        Finish::Filtered => 0,
        _ => calls,
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

/// Ends calls that an earlier run had started: the effect of these calls is unknown, and they must
/// not run twice.
pub(super) fn end_interrupted_calls(round: &mut Round, listener: &mut dyn ChatListener) {
    for call in &mut round.0 {
        if matches!(call.progress, CallProgress::Begun) && call.is_native {
            // A permission request has no effect, so repeating the request does no harm.
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

/// Marks the calls that are due as begun. An approval in the context applies only to the one call
/// that waited for the approval; later calls with the same arguments need a new approval.
fn begin(round: &mut Round, context: &CallContext) -> Vec<DueCall> {
    let mut due = Vec::new();
    let mut unused = context.approved.clone();
    for (index, call) in round.0.iter_mut().enumerate() {
        let waited_for = match &call.progress {
            CallProgress::Due => None,
            CallProgress::Waiting(_) => call.waiting().and_then(|waiting| waiting.approval_id),
            CallProgress::Begun | CallProgress::Ended(_) => continue,
        };
        let mut context = context.clone();
        // The provider runs a native call with the arguments as they are.
        context.is_by_model = !call.is_native;
        context.approved.clear();
        if let Some(id) = waited_for {
            context.approved.extend(unused.take(&id));
            context.approval.named = Some(id);
        }
        call.progress = CallProgress::Begun;
        due.push(DueCall {
            index,
            call: call.call.clone(),
            is_native: call.is_native,
            context,
        });
    }
    due
}

/// Returns the status line `Executing a, b...`; `None` if only permission requests are due.
fn executing_status(due: &[DueCall]) -> Option<String> {
    let due = due.iter().filter(|due| !due.is_native);
    let names: Vec<_> = due.map(|due| truncate_name(&due.call.name)).collect();
    (!names.is_empty()).then(|| format!("Executing {}...", names.join(", ")))
}

fn truncate_name(name: &str) -> String {
    name.chars().take(MAX_NAME_LEN).collect()
}

fn failure(call: &ToolCall, code: ErrorCode, message: impl Into<String>) -> ToolResult {
    ToolResult::failure(&call.id, &call.name, code, message)
}

impl RoundCall {
    /// Records the result of a call and reports the result to the listener. A permitted native call
    /// is reported when the provider has made the call.
    fn end(&mut self, result: ToolResult, listener: &mut dyn ChatListener) {
        self.record_result(result.clone());
        if self.is_native && result.success {
            return;
        }
        listener.on_event(match self.waiting() {
            Some(waiting) => ChatEvent::ToolWaiting(waiting),
            None => ChatEvent::ToolFinished(EndedCall {
                call: self.call.clone(),
                result,
            }),
        });
    }
}
