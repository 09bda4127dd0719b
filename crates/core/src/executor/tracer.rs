use crate::tool::{CallContext, ToolCall, ToolOrigin, ToolResult, TraceContext};

/// Makes a span of every call of an executor, for whoever exports traces.
///
/// It is called on the task of the call, so it must neither block nor take long.
pub trait Tracer: Send + Sync + 'static {
    /// A call enters the pipeline, in the trace of its context if that has one. `origin` is
    /// absent when there is no such tool.
    fn start(
        &self,
        call: &ToolCall,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) -> Box<dyn CallSpan>;
}

/// The span of a call that runs. Dropped before its end, the call was given up.
pub trait CallSpan: Send {
    /// Where the call stands in its trace: what the tool asks others for stands below it.
    fn context(&self) -> Option<TraceContext>;

    /// The call ended with this result.
    fn end(self: Box<Self>, result: &ToolResult);
}
