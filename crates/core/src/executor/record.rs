//! Begins and ends a call: its log lines, observer, record in the call log, and result.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::Instant as TokioInstant;
use tracing::Span;

use super::journal::Entry;
use crate::registry::RegisteredTool;
use crate::store::CallId;
use crate::tool::{
    CallContext, JsonObject, ServerResponse, ToolCall, ToolFailure, ToolOrigin, ToolOutput,
    ToolResult,
};
use crate::truncated;

/// Maximum time between the deadline of a call and its end, if the tool has returned a result and
/// the result or the call must be stored. The stores then continue without the caller.
pub const RESPONSE_ALLOWANCE: Duration = Duration::from_secs(1);

/// Is notified when calls begin and end, for events and statistics.
///
/// An observer runs on the task of the call, so it must neither block nor take long.
pub trait Observer: Send + Sync + 'static {
    /// A call enters the pipeline and is pending. `origin` is `None` if no tool has the call's
    /// name.
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext);

    /// A call has ended with this result. For a call that its caller cancels,
    /// [`on_abandoned`](Self::on_abandoned) is called instead.
    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    );

    /// The tool of the call is about to run: the call is valid, approved, and has a permit. Not
    /// called for a call that fails before, or that a cached result or the gate answers. The
    /// default implementation does nothing.
    fn on_running(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) {
        let _ = (call, origin, context);
    }

    /// The caller cancelled the call before it ended. The default implementation does nothing.
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
    /// The caller's id of the call.
    pub id: &'a str,
    /// The tool name in the call.
    pub tool_name: &'a str,
    /// The id of the call's record in the call log, if the record belongs to this call.
    pub record: Option<CallId>,
}

/// Notifies an observer about one call.
pub(super) struct Watch<'a> {
    observer: &'a dyn Observer,
    context: &'a CallContext,
    tool: Option<Arc<RegisteredTool>>,
    started: Instant,
    id: String,
    tool_name: String,
}

impl<'a> Watch<'a> {
    pub(super) fn start(
        observer: &'a dyn Observer,
        tool: Option<Arc<RegisteredTool>>,
        call: &ToolCall,
        context: &'a CallContext,
    ) -> Self {
        let watch = Self {
            observer,
            context,
            tool,
            started: Instant::now(),
            id: call.id.clone(),
            tool_name: call.name.clone(),
        };
        observer.on_started(call, watch.origin(), context);
        watch
    }

    pub(super) fn finish(self, result: &ToolResult) {
        let elapsed = self.started.elapsed();
        self.observer
            .on_finished(result, self.origin(), elapsed, self.context);
    }

    fn notify_running(&self, record: Option<CallId>) {
        let call = self.observed(record);
        self.observer.on_running(&call, self.origin(), self.context);
    }

    fn notify_abandoned(self, record: Option<CallId>) {
        let call = self.observed(record);
        let elapsed = self.started.elapsed();
        self.observer
            .on_abandoned(&call, self.origin(), elapsed, self.context);
    }

    fn observed(&self, record: Option<CallId>) -> ObservedCall<'_> {
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

/// Observes and records one call. Dropping this value before the call has ended marks the call as
/// cancelled.
pub(super) struct Open<'a> {
    watch: Option<Watch<'a>>,
    entry: Option<Entry>,
    /// The arguments of the call after their repair.
    repaired_arguments: Option<JsonObject>,
    /// The arguments that an approver set in place of the call's own.
    approved_arguments: Option<JsonObject>,
    /// The deadline of the call, once the deadline is known.
    deadline: Option<TokioInstant>,
    respond_by: Option<TokioInstant>,
}

impl<'a> Open<'a> {
    pub(super) fn new(watch: Option<Watch<'a>>, entry: Option<Entry>) -> Self {
        Self {
            watch,
            entry,
            repaired_arguments: None,
            approved_arguments: None,
            deadline: None,
            respond_by: None,
        }
    }

    /// Sets the deadline of the call, `left` from now, and returns it.
    pub(super) fn set_deadline(&mut self, left: Duration) -> TokioInstant {
        *self.deadline.insert(TokioInstant::now() + left)
    }

    /// Returns when the call ends at the latest. The first use, when the call has a result, fixes
    /// this time.
    pub(super) fn respond_by(&mut self) -> TokioInstant {
        let now = TokioInstant::now();
        // The deadline has passed if the call has waited for a person.
        let ended = self.deadline.map_or(now, |deadline| deadline.max(now));
        *self.respond_by.get_or_insert(ended + RESPONSE_ALLOWANCE)
    }

    /// Returns the call-log entry of the call, if there is a call log.
    pub(super) fn entry(&mut self) -> Option<&mut Entry> {
        self.entry.as_mut()
    }

    /// Notes the arguments of the call after their repair, for the call log and the result.
    pub(super) fn record_repaired(&mut self, arguments: &JsonObject) {
        if let Some(entry) = &mut self.entry {
            entry.record_repaired(arguments);
        }
        self.repaired_arguments = Some(arguments.clone());
    }

    /// Notes the arguments that an approver set in place of the call's own, for the call log and
    /// the result.
    pub(super) fn record_edited(&mut self, arguments: &JsonObject) {
        if let Some(entry) = &mut self.entry {
            entry.record_edited(arguments);
        }
        self.approved_arguments = Some(arguments.clone());
    }

    /// Records that the tool is about to run, and notifies the observer. Returns the id of the
    /// call's record.
    ///
    /// # Errors
    /// `unavailable` if the call log cannot be written; the tool must not run.
    pub(super) async fn record_running(&mut self) -> Result<Option<CallId>, ToolFailure> {
        if let Some(entry) = &mut self.entry {
            entry.record_running().await?;
        }
        let record = self.entry.as_ref().map(Entry::id);
        if let Some(watch) = &self.watch {
            watch.notify_running(record);
        }
        Ok(record)
    }

    /// Ends the call. Returns when its response is due at the latest.
    pub(super) async fn end(&mut self, result: &mut ToolResult) -> Instant {
        let respond_by = self.respond_by();
        if let Some(entry) = &mut self.entry {
            entry.end(result, respond_by).await;
        }
        for (key, arguments) in [
            (
                ToolResult::REPAIRED_ARGUMENTS,
                self.repaired_arguments.take(),
            ),
            (
                ToolResult::APPROVED_ARGUMENTS,
                self.approved_arguments.take(),
            ),
        ] {
            if let Some(arguments) = arguments {
                result.metadata.insert(key.to_owned(), json!(arguments));
            }
        }
        if let Some(watch) = self.watch.take() {
            watch.finish(result);
        }
        respond_by.into_std()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let record = self.entry.as_ref().and_then(Entry::own_id);
        // Dropping the entry records the call as cancelled.
        self.entry = None;
        if let Some(watch) = self.watch.take() {
            watch.notify_abandoned(record);
        }
    }
}

/// Creates the span of a call's log lines, with the call, tool, server and user. Unknown values
/// have no field.
pub(super) fn span(call: &ToolCall, tool: Option<&RegisteredTool>, context: &CallContext) -> Span {
    let server = tool.and_then(|tool| match tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => Some(server_label.as_str()),
        ToolOrigin::Native => None,
    });
    tracing::info_span!(
        "call",
        tool.name = %shown(&call.name), call.id = %shown(&call.id), server.label = server,
        user = context.user.as_deref()
    )
}

/// Turns the outcome of the call into the call's one result, with `execution_time` in seconds, and
/// logs the end of the call. Arguments and results are not logged.
pub(super) struct Recorder {
    id: String,
    name: String,
    started: Instant,
}

impl Recorder {
    pub(super) fn start(call: &ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            started: Instant::now(),
        }
    }

    /// Returns the result, and the MCP server's response if the outcome has one.
    pub(super) fn finish(
        self,
        outcome: Result<ToolOutput, ToolFailure>,
    ) -> (ToolResult, Option<ServerResponse>) {
        let elapsed = self.started.elapsed();
        let Self { id, name, .. } = self;
        let (mut result, response) = match outcome {
            Ok(mut output) => {
                let response = output.response.take();
                (succeeded(id, name, output), response)
            }
            Err(mut failure) => {
                let response = failure.response.take().map(|response| *response);
                (failed(id, name, failure), response)
            }
        };
        let seconds = (elapsed.as_secs_f64() * 1e6).round() / 1e6;
        result
            .metadata
            .insert("execution_time".to_owned(), json!(seconds));
        log(&result, elapsed);
        (result, response)
    }
}

fn succeeded(id: String, name: String, output: ToolOutput) -> ToolResult {
    ToolResult {
        data: output.data,
        metadata: output.metadata,
        ..ToolResult::success(id, name, output.result)
    }
}

fn failed(id: String, name: String, failure: ToolFailure) -> ToolResult {
    let mut result = ToolResult::failure(id, name, failure.code, failure.message);
    result.result = failure.result;
    result.metadata = *failure.metadata;
    result
}

/// Maximum length of a name or an id in a log line, in bytes. A model or a client chooses both.
const MAX_SHOWN_BYTES: usize = 256;

fn shown(text: &str) -> &str {
    truncated(text, MAX_SHOWN_BYTES)
}

fn log(result: &ToolResult, elapsed: Duration) {
    let (name, id) = (shown(&result.tool_name), shown(&result.tool_call_id));
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
