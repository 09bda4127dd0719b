use crate::tool::{CallContext, ToolCall, ToolOrigin, ToolResult, TraceContext};

/// Creates a trace span for every call of an executor.
///
/// A tracer runs on the task of the call, so it must neither block nor take long.
pub trait Tracer: Send + Sync + 'static {
    /// Starts the span of a call that enters the pipeline. The span is a child of the context's
    /// trace, if there is one. `origin` is `None` if no tool has the call's name.
    fn start(
        &self,
        call: &ToolCall,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) -> Box<dyn CallSpan>;
}

/// The span of a running call. Dropping the span before [`end`](Self::end) means that the call was
/// cancelled.
pub trait CallSpan: Send {
    /// Returns the trace context for requests that the tool sends.
    fn context(&self) -> Option<TraceContext>;

    /// Ends the span of a call that returned this result.
    fn end(self: Box<Self>, result: &ToolResult);
}
