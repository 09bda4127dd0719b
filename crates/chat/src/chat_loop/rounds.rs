use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use pillion_core::provider::format_results;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use tokio::time::{Instant, timeout_at};

use super::{ChatLoop, out_of_time};
use crate::state::{Progress, Round, RoundCall};
use crate::{ChatError, ChatEvent, ChatListener, ChatState};

/// Longest part of a name that a model made up which is repeated, in characters.
const LONGEST_NAME: usize = 128;

impl ChatLoop {
    /// Runs the calls of the last answer that have not been run, and appends the results when all
    /// are there. Some may wait for an approval then.
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
            return Err(out_of_time().into());
        }
        self.refuse_hidden(round, listener);
        let before = round.clone();
        let due = begin(round, context);
        if !due.is_empty() {
            listener.hear(ChatEvent::Status(executing(&due)));
            if let Err(failure) = listener.keep(state).await {
                state.round = Some(before);
                return Err(ChatError::NotKept(failure));
            }
            self.run_calls(state, due, deadline, listener).await;
        }
        let results = state.round.as_ref().and_then(Round::results);
        if let Some(results) = results {
            let messages = format_results(state.provider(), &results);
            state.conversation.messages.extend(messages);
            state.round = None;
        }
        listener.keep(state).await.map_err(ChatError::NotKept)
    }

    /// Ends calls of tools that the model was not shown (requirement H2).
    fn refuse_hidden(&self, round: &mut Round, listener: &mut dyn ChatListener) {
        for call in &mut round.0 {
            let may_run = matches!(call.progress, Progress::Due | Progress::Waiting(_));
            if may_run && !self.is_shown(&call.call.name) {
                let message = format!("Unknown tool: {}", shortened(&call.call.name));
                call.end(failure(&call.call, ErrorCode::NotFound, message), listener);
            }
        }
    }

    fn is_shown(&self, name: &str) -> bool {
        let is_one = |name: &str| self.tools.iter().any(|tool| tool.name().as_str() == name);
        is_one(name)
            || self
                .runner
                .canonical_name(name)
                .is_some_and(|name| is_one(&name))
    }

    /// Runs calls side by side, and notes each result as it comes.
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
        let mut unfinished: Vec<usize> = due.iter().map(|due| due.place).collect();
        let begun = Mutex::new(Vec::with_capacity(due.len()));
        let listener = Mutex::new(listener);
        let (noted, heard) = (&begun, &listener);
        let runs = due.into_iter().map(|due| async move {
            let DueCall {
                place,
                call,
                context,
            } = due;
            noted.lock().push(place);
            heard.lock().hear(ChatEvent::ToolStarted(call.clone()));
            (place, self.runner.run(call, &context).await)
        });
        let mut ends = stream::iter(runs).buffer_unordered(self.runner.at_once().get());
        while let Ok(Some((place, result))) = timeout_at(deadline, ends.next()).await {
            unfinished.retain(|other| *other != place);
            round.0[place].end(result, *listener.lock());
        }
        drop(ends);
        // The time was over: what was begun is cut off, the rest may begin in a later run.
        let begun = begun.into_inner();
        for place in unfinished {
            let call = &mut round.0[place];
            if begun.contains(&place) {
                let message = "The time of the chat was over before the call had ended";
                let result = failure(&call.call, ErrorCode::Timeout, message);
                call.end(result, *listener.lock());
            } else {
                call.progress = Progress::Due;
            }
        }
    }
}

/// A call that is to run now.
struct DueCall {
    place: usize,
    call: ToolCall,
    context: CallContext,
}

/// The round of an answer's calls. Those beyond `most` are ended at once.
pub(super) fn of(calls: Vec<ToolCall>, most: usize, listener: &mut dyn ChatListener) -> Round {
    let calls = calls.into_iter().enumerate().map(|(place, call)| {
        let mut call = RoundCall {
            call,
            progress: Progress::Due,
        };
        if place >= most {
            let message = format!("Not run: no more than {most} calls of one answer are");
            call.end(
                failure(&call.call, ErrorCode::InvalidInput, message),
                listener,
            );
        }
        call
    });
    Round(calls.collect())
}

/// The result of a call that was made although there were no tools.
pub(super) fn unwanted(call: &ToolCall) -> ToolResult {
    failure(
        call,
        ErrorCode::InvalidInput,
        "Not run: no more tools may be called",
    )
}

/// Ends calls that an earlier run had begun: whether they did anything is not known, and they
/// must not run twice.
pub(super) fn cut_off(round: &mut Round, listener: &mut dyn ChatListener) {
    for call in &mut round.0 {
        if matches!(call.progress, Progress::Begun) {
            let message = "The call was cut off; whether it has taken effect is not known";
            call.end(
                failure(&call.call, ErrorCode::InternalError, message),
                listener,
            );
        }
    }
}

/// Marks the calls that are to run now as begun.
fn begin(round: &mut Round, context: &CallContext) -> Vec<DueCall> {
    let mut due = Vec::new();
    for (place, call) in round.0.iter_mut().enumerate() {
        let waited_for = match &call.progress {
            Progress::Due => None,
            Progress::Waiting(_) => call.waiting().and_then(|waiting| waiting.approval_id),
            Progress::Begun | Progress::Ended(_) => continue,
        };
        let mut context = context.clone();
        if waited_for.is_some() {
            context.approval.named = waited_for;
        }
        call.progress = Progress::Begun;
        due.push(DueCall {
            place,
            call: call.call.clone(),
            context,
        });
    }
    due
}

/// `Executing a, b...` (requirement H6).
fn executing(due: &[DueCall]) -> String {
    let names: Vec<_> = due.iter().map(|due| shortened(&due.call.name)).collect();
    format!("Executing {}...", names.join(", "))
}

fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

fn failure(call: &ToolCall, code: ErrorCode, message: impl Into<String>) -> ToolResult {
    ToolResult::failure(&call.id, &call.name, code, message)
}

impl RoundCall {
    /// Notes what came of the call, and tells of it.
    fn end(&mut self, result: ToolResult, listener: &mut dyn ChatListener) {
        self.answered(result.clone());
        listener.hear(match self.waiting() {
            Some(waiting) => ChatEvent::ToolWaiting(waiting),
            None => ChatEvent::ToolFinished(result),
        });
    }
}
