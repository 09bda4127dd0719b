#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::registry::{RegisteredTool, ToolRegistry};
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

    /// The caller of the call with this id gave it up before it ended. Does nothing unless
    /// an observer wants to know.
    fn abandoned(
        &self,
        call_id: &str,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        let _ = (call_id, origin, elapsed, context);
    }
}

/// One call under the eyes of an observer.
pub(super) struct Watch<'a> {
    observer: &'a dyn Observer,
    context: &'a CallContext,
    tool: Option<Arc<RegisteredTool>>,
    started: Instant,
    /// The id of the call, until it has ended.
    running: Option<String>,
}

impl<'a> Watch<'a> {
    pub(super) fn start(
        observer: &'a dyn Observer,
        registry: &ToolRegistry,
        call: &ToolCall,
        context: &'a CallContext,
    ) -> Self {
        let watch = Self {
            observer,
            context,
            tool: registry.get(&call.name),
            started: Instant::now(),
            running: Some(call.id.clone()),
        };
        observer.started(call, watch.origin(), context);
        watch
    }

    pub(super) fn finish(mut self, result: &ToolResult) {
        self.running = None;
        let elapsed = self.started.elapsed();
        self.observer
            .finished(result, self.origin(), elapsed, self.context);
    }

    fn origin(&self) -> Option<&ToolOrigin> {
        self.tool.as_ref().map(|tool| tool.origin())
    }
}

/// A future that is dropped before its end is a call that was given up.
impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.running.take() {
            let elapsed = self.started.elapsed();
            self.observer
                .abandoned(&id, self.origin(), elapsed, self.context);
        }
    }
}
