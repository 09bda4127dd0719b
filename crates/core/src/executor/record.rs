//! Records every call: writes the call to the call log (before its tool runs, and when the call has
//! ended), writes its log lines, notifies the observer, and creates the result of the call.

mod entry;
mod redaction;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant as TokioInstant;
use tokio_util::task::TaskTracker;
use tracing::Span;

use crate::registry::RegisteredTool;
use crate::store::{CallId, CallLog, ProcessRun, ToolCallRecord};
use crate::tool::{
    CallContext, ErrorCode, JsonObject, ServerResponse, ToolCall, ToolFailure, ToolOrigin,
    ToolOutput, ToolResult,
};
use crate::{RepeatLimit, truncated};
pub(super) use entry::Entry;
pub use redaction::Redaction;

/// Maximum delay of a response beyond the deadline of the call, while the result or the call's
/// record is being stored. After this time, the caller gets the response, and storing continues in
/// the background.
pub const RESPONSE_ALLOWANCE: Duration = Duration::from_secs(1);

/// Is notified when calls begin and end, for events and statistics.
///
/// An observer runs on the task of the call, so it must neither block nor take long.
pub trait Observer: Send + Sync + 'static {
    /// Called when a call enters the pipeline and is pending. `origin` is `None` if no tool has the
    /// call's name.
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext);

    /// Called when a call has ended with this result. For a call that its caller cancels,
    /// [`on_abandoned`](Self::on_abandoned) is called instead.
    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    );

    /// Called when the tool of the call is about to run: the call is valid, approved, and has a
    /// permit. Not called for a call that fails earlier, or whose result comes from the cache or
    /// the gate. The default implementation does nothing.
    fn on_running(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) {
        let _ = (call, origin, context);
    }

    /// Called when the caller has cancelled the call before the call ended. The default
    /// implementation does nothing.
    fn on_abandoned(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        let _ = (call, origin, elapsed, context);
    }
}

/// A call that an observer is notified about.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ObservedCall<'a> {
    /// The caller's ID of the call.
    pub id: &'a str,
    /// The tool name in the call.
    pub tool_name: &'a str,
    /// The ID of the call's record in the call log, if the record belongs to this call.
    pub record: Option<CallId>,
}

/// Notifies an observer about the stages of one call.
pub(super) struct CallObserver<'a> {
    observer: &'a dyn Observer,
    context: &'a CallContext,
    tool: Option<Arc<RegisteredTool>>,
    started_at: Instant,
    id: String,
    tool_name: String,
}

impl<'a> CallObserver<'a> {
    pub(super) fn start(
        observer: &'a dyn Observer,
        tool: Option<Arc<RegisteredTool>>,
        call: &ToolCall,
        context: &'a CallContext,
    ) -> Self {
        let call_observer = Self {
            observer,
            context,
            tool,
            started_at: Instant::now(),
            id: call.id.clone(),
            tool_name: call.name.clone(),
        };
        observer.on_started(call, call_observer.origin(), context);
        call_observer
    }

    pub(super) fn finish(self, result: &ToolResult) {
        let elapsed = self.started_at.elapsed();
        self.observer
            .on_finished(result, self.origin(), elapsed, self.context);
    }

    fn notify_running(&self, record: Option<CallId>) {
        let call = self.observed_call(record);
        self.observer.on_running(&call, self.origin(), self.context);
    }

    fn notify_abandoned(self, record: Option<CallId>) {
        let call = self.observed_call(record);
        let elapsed = self.started_at.elapsed();
        self.observer
            .on_abandoned(&call, self.origin(), elapsed, self.context);
    }

    fn observed_call(&self, record: Option<CallId>) -> ObservedCall<'_> {
        ObservedCall {
            id: &self.id,
            tool_name: &self.tool_name,
            record,
        }
    }

    fn origin(&self) -> Option<&ToolOrigin> {
        self.tool.as_ref().map(|tool| tool.origin())
    }
}

/// Notifies the observer about one call and records the call. Dropping this value before the call
/// has ended marks the call as cancelled.
pub(super) struct OpenCall<'a> {
    call_observer: Option<CallObserver<'a>>,
    entry: Option<Entry>,
    /// The arguments of the call after their repair.
    repaired_arguments: Option<JsonObject>,
    /// The arguments that an approver set in place of the call's own.
    approved_arguments: Option<JsonObject>,
    /// The deadline of the call, once the deadline is known.
    deadline: Option<TokioInstant>,
    response_deadline: Option<TokioInstant>,
}

impl<'a> OpenCall<'a> {
    pub(super) fn new(call_observer: Option<CallObserver<'a>>, entry: Option<Entry>) -> Self {
        Self {
            call_observer,
            entry,
            repaired_arguments: None,
            approved_arguments: None,
            deadline: None,
            response_deadline: None,
        }
    }

    /// Sets the deadline of the call, `remaining_time` from now, and returns it.
    pub(super) fn set_deadline(&mut self, remaining_time: Duration) -> TokioInstant {
        *self.deadline.insert(TokioInstant::now() + remaining_time)
    }

    /// Returns the latest time for the response of the call. This time is computed when this method
    /// is first called, so this method must not be called before the call has a result.
    pub(super) fn response_deadline(&mut self) -> TokioInstant {
        let now = TokioInstant::now();
        // After a wait for a person, the deadline may be in the past, so the current time counts
        // instead.
        let end_at = self.deadline.map_or(now, |deadline| deadline.max(now));
        let response_deadline = end_at + RESPONSE_ALLOWANCE;
        *self.response_deadline.get_or_insert(response_deadline)
    }

    /// Returns the call-log entry of the call, if there is a call log.
    pub(super) fn entry(&mut self) -> Option<&mut Entry> {
        self.entry.as_mut()
    }

    /// Notes the arguments of the call after their repair, for the call log and the result.
    pub(super) fn record_repaired_arguments(&mut self, arguments: &JsonObject) {
        if let Some(entry) = &mut self.entry {
            entry.record_repaired_arguments(arguments);
        }
        self.repaired_arguments = Some(arguments.clone());
    }

    /// Notes the arguments that an approver set in place of the call's own, for the call log and
    /// the result.
    pub(super) fn record_edited_arguments(&mut self, arguments: &JsonObject) {
        if let Some(entry) = &mut self.entry {
            entry.record_edited_arguments(arguments);
        }
        self.approved_arguments = Some(arguments.clone());
    }

    /// Records that the tool is about to run, and notifies the observer. Returns the ID of the
    /// call's record.
    ///
    /// # Errors
    /// `unavailable` if the call log cannot be written; the tool must not run.
    pub(super) async fn record_running(&mut self) -> Result<Option<CallId>, ToolFailure> {
        if let Some(entry) = &mut self.entry {
            entry.record_running().await?;
        }
        let record = self.entry.as_ref().map(Entry::id);
        if let Some(call_observer) = &self.call_observer {
            call_observer.notify_running(record);
        }
        Ok(record)
    }

    /// Ends the call. Returns the latest time for its response.
    pub(super) async fn end(&mut self, result: &mut ToolResult) -> Instant {
        let response_deadline = self.response_deadline();
        if let Some(entry) = &mut self.entry {
            entry.end(result, response_deadline).await;
        }
        let repaired_arguments = self.repaired_arguments.take();
        let approved_arguments = self.approved_arguments.take();
        for (key, arguments) in [
            (ToolResult::REPAIRED_ARGUMENTS, repaired_arguments),
            (ToolResult::APPROVED_ARGUMENTS, approved_arguments),
        ] {
            if let Some(arguments) = arguments {
                result.metadata.insert(key.to_owned(), json!(arguments));
            }
        }
        if let Some(call_observer) = self.call_observer.take() {
            call_observer.finish(result);
        }
        response_deadline.into_std()
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        let record = self.entry.as_ref().and_then(Entry::own_id);
        // Dropping the entry records the call as cancelled.
        self.entry = None;
        if let Some(call_observer) = self.call_observer.take() {
            call_observer.notify_abandoned(record);
        }
    }
}

/// Creates the span of a call's log lines, with the call, tool, server and user. Unknown values
/// have no field.
pub(super) fn create_span(
    call: &ToolCall,
    tool: Option<&RegisteredTool>,
    context: &CallContext,
) -> Span {
    let server = tool.and_then(|tool| tool.origin().server_label());
    tracing::info_span!(
        "call",
        tool.name = %shortened_for_log(&call.name), call.id = %shortened_for_log(&call.id),
        server.label = server, user = context.user.as_deref()
    )
}

/// Turns the outcome of the call into the call's one result, with `execution_time` in seconds, and
/// logs the end of the call. Arguments and results are not logged.
pub(super) struct Recorder {
    id: String,
    name: String,
    started_at: Instant,
}

impl Recorder {
    pub(super) fn start(call: &ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            started_at: Instant::now(),
        }
    }

    /// Returns the result, and the MCP server's response if the outcome has one.
    pub(super) fn finish(
        self,
        outcome: Result<ToolOutput, ToolFailure>,
    ) -> (ToolResult, Option<ServerResponse>) {
        let elapsed = self.started_at.elapsed();
        let Self { id, name, .. } = self;
        let (mut result, response) = match outcome {
            Ok(mut output) => {
                let response = output.response.take();
                (success_result(id, name, output), response)
            }
            Err(mut failure) => {
                let response = failure.response.take().map(|response| *response);
                (failure_result(id, name, failure), response)
            }
        };
        let seconds = (elapsed.as_secs_f64() * 1e6).round() / 1e6;
        let metadata = &mut result.metadata;
        metadata.insert("execution_time".to_owned(), json!(seconds));
        log_end(&result, elapsed);
        (result, response)
    }
}

fn success_result(id: String, name: String, output: ToolOutput) -> ToolResult {
    ToolResult {
        data: output.data,
        metadata: output.metadata,
        ..ToolResult::success(id, name, output.result)
    }
}

fn failure_result(id: String, name: String, failure: ToolFailure) -> ToolResult {
    let mut result = ToolResult::failure(id, name, failure.code, failure.message);
    result.result = failure.result;
    result.metadata = *failure.metadata;
    result
}

/// Maximum length of a tool name or a call ID in a log line, in bytes. The length must be limited,
/// because models and clients choose names and IDs.
const MAX_SHOWN_BYTES: usize = 256;

fn shortened_for_log(text: &str) -> &str {
    truncated(text, MAX_SHOWN_BYTES)
}

fn log_end(result: &ToolResult, elapsed: Duration) {
    let name = shortened_for_log(&result.tool_name);
    let id = shortened_for_log(&result.tool_call_id);
    let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    match result.error_code {
        None => tracing::info!(
            tool.name = %name, call.id = %id, duration_ms,
            "Tool `{name}` succeeded"
        ),
        Some(code) => tracing::warn!(
            tool.name = %name, call.id = %id, duration_ms, error_code = %code,
            "Tool `{name}` failed: {code}"
        ),
    }
}

/// Maximum number of background tasks that retry to record the end of a call whose tool did not
/// run.
const MAX_REPEATED_ENDS: usize = 1_000;

/// Returns the failure of a call that could not be recorded before its deadline.
pub(super) fn late_failure() -> ToolFailure {
    let message = "The call log was not written before the call's deadline";
    ToolFailure::new(ErrorCode::Unavailable, message)
}

/// Writes the calls of an executor to a call log.
///
/// A tool runs only after its call is recorded: if the log cannot be written, the call ends as
/// `unavailable`. A result that cannot be recorded is still returned, because the tool has run,
/// with `"recorded": false` in its metadata. A result that is not recorded [in
/// time](super::RESPONSE_ALLOWANCE) is returned in the same way; its record is then written [in the
/// background](Self::with_background).
#[derive(Clone)]
pub struct Journal {
    writer: Arc<Writer>,
    process: ProcessRun,
}

/// The part of a journal that the journal's entries share.
#[derive(Clone)]
struct Writer {
    log: Arc<dyn CallLog>,
    redaction: Redaction,
    /// Limits the rate of log messages about records that cannot be written.
    failure_log_limit: Arc<RepeatLimit>,
    /// Runs writes in the background for calls that have ended.
    background: TaskTracker,
    /// Limits the number of background tasks that retry to record the end of a call whose tool did
    /// not run. While writing to the log fails, no tool runs, but any number of calls can be
    /// rejected, and each of these calls must be recorded.
    repeat_permits: Arc<Semaphore>,
}

impl Journal {
    /// Creates a journal of this process that writes to `log`. `redaction` determines how much of
    /// arguments and results is recorded.
    #[must_use]
    pub fn new(log: Arc<dyn CallLog>, process: ProcessRun, redaction: Redaction) -> Self {
        let writer = Writer {
            log,
            redaction,
            failure_log_limit: Arc::default(),
            background: TaskTracker::new(),
            repeat_permits: Arc::new(Semaphore::new(MAX_REPEATED_ENDS)),
        };
        Self {
            writer: Arc::new(writer),
            process,
        }
    }

    /// Returns a journal that runs writes in the background on `background`. A program that exits
    /// must wait for this tracker.
    #[must_use]
    pub fn with_background(mut self, background: TaskTracker) -> Self {
        Arc::make_mut(&mut self.writer).background = background;
        self
    }

    /// Creates the entry of a call, without writing anything.
    pub(super) fn open(
        &self,
        tool: Option<&RegisteredTool>,
        call: &ToolCall,
        context: &CallContext,
    ) -> Entry {
        let name = tool.map_or(call.name.as_str(), |tool| tool.name().as_str());
        let arguments = self.writer.redaction.arguments(&call.arguments);
        let mut record = ToolCallRecord::begin(self.process.clone(), name, arguments);
        let server = tool.and_then(|tool| tool.origin().server_label());
        record.server = server.map(str::to_owned);
        if let Some(id) = context.record {
            record.id = id;
        }
        record.parent = context.nesting.as_ref().and_then(|nesting| nesting.parent);
        record.user.clone_from(&context.user);
        record.user_is_verified = context.verified_user().is_some();
        record.principal.clone_from(&context.principal);
        record.caller.clone_from(&context.caller);
        Entry::new(&self.writer, record)
    }
}
