#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::journal::Entry;
use crate::registry::RegisteredTool;
use crate::store::CallId;
use crate::tool::{CallContext, ToolCall, ToolOrigin, ToolResult};

/// Sees every call of an executor begin and end, for events and statistics.
///
/// It is called on the task of the call, so it must neither block nor take long.
pub trait Observer: Send + Sync + 'static {
    /// A call enters the pipeline. `origin` is absent when there is no such tool.
    fn started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext);

    /// The call that entered ended with this result. A call that its caller gave up never
    /// ends; it is [`abandoned`](Self::abandoned).
    fn finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    );

    /// The caller of the call gave it up before it ended. Does nothing unless an observer
    /// wants to know.
    fn abandoned(
        &self,
        call: &AbandonedCall<'_>,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        let _ = (call, origin, elapsed, context);
    }
}

/// A call that its caller gave up.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AbandonedCall<'a> {
    /// The id of the call.
    pub id: &'a str,
    /// The name that it called the tool by.
    pub tool_name: &'a str,
    /// What the call log knows it by, where there is one and it knows it.
    pub record: Option<CallId>,
}

/// One call under the eyes of an observer.
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
        observer.started(call, watch.origin(), context);
        watch
    }

    pub(super) fn finish(self, result: &ToolResult) {
        let elapsed = self.started.elapsed();
        self.observer
            .finished(result, self.origin(), elapsed, self.context);
    }

    fn give_up(self, record: Option<CallId>) {
        let call = AbandonedCall {
            id: &self.id,
            tool_name: &self.tool_name,
            record,
        };
        let elapsed = self.started.elapsed();
        self.observer
            .abandoned(&call, self.origin(), elapsed, self.context);
    }

    fn origin(&self) -> Option<&ToolOrigin> {
        self.tool.as_ref().map(|tool| tool.origin())
    }
}

/// A call that is seen and written down, until it has ended. Dropped before, it was given up.
pub(super) struct Open<'a> {
    watch: Option<Watch<'a>>,
    entry: Option<Entry>,
}

impl<'a> Open<'a> {
    pub(super) fn new(watch: Option<Watch<'a>>, entry: Option<Entry>) -> Self {
        Self { watch, entry }
    }

    /// What the call log says of it, where there is one.
    pub(super) fn entry(&mut self) -> Option<&mut Entry> {
        self.entry.as_mut()
    }

    pub(super) async fn end(mut self, result: &mut ToolResult) {
        if let Some(entry) = &mut self.entry {
            entry.end(result).await;
        }
        if let Some(watch) = self.watch.take() {
            watch.finish(result);
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let record = self.entry.as_ref().and_then(Entry::own_id);
        // Writes what has become of it.
        self.entry = None;
        if let Some(watch) = self.watch.take() {
            watch.give_up(record);
        }
    }
}
