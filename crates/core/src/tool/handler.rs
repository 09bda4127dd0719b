use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{
    ActingIdentityFuture, ApprovalPolicy, CallContext, JsonObject, ToolDefinition, ToolFailure,
    ToolOrigin, ToolOutput,
};

/// The return type of [`Tool::call`]: a boxed future, so that the trait is object-safe.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolFailure>> + Send>>;

/// The data that a tool gets from the caller besides its arguments, the user and the channel.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardedParameters {
    /// The parameters, for the person who decides on an approval.
    pub parameters: Value,
    /// A digest that identifies the parameters exactly as the tool gets them.
    pub digest: String,
}

/// A tool that a model can call.
///
/// Implement this trait for a tool with state; for a single function, use [`FnTool`].
pub trait Tool: Send + Sync + 'static {
    /// Returns the definition. The definition must not change while the tool is registered:
    /// register a new tool instead.
    fn definition(&self) -> &ToolDefinition;

    /// Returns the tool's origin. Default: `Native`.
    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Native
    }

    /// Returns a digest of everything that defines the tool besides its name, description and
    /// schema, such as the address of an MCP tool's server. Approvals and cached results are valid
    /// only for the same digest. Default: `None`.
    fn digest(&self) -> Option<String> {
        None
    }

    /// Returns the name by which the tool's MCP server knows the tool, without any prefix that
    /// Pillion adds. Default: `None`, for a tool that belongs to no server.
    fn name_on_server(&self) -> Option<&str> {
        None
    }

    /// Returns whether lists show the tool. A tool that is not offered cannot run, because
    /// something that it needs is missing; a call returns an error that names what is missing. The
    /// returned value must not change while the tool is registered. Default: `true`.
    fn is_offered(&self) -> bool {
        true
    }

    /// Returns the tool's own approval policy, for example from the configuration of its MCP
    /// server. The executor's rules for the tool or its server take precedence over this policy,
    /// and this policy takes precedence over the executor's default. The returned policy must not
    /// change while the tool is registered. Default: `None`.
    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        None
    }

    /// Returns the maximum duration of the tool's calls. A configured timeout of this tool takes
    /// precedence, and the timeout for all tools remains an upper limit. Default: `None`.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the acting identity for this caller, if the identity depends on the caller. Results
    /// of such a tool are cached only for the same caller. A failure ends the call before an
    /// approval is requested. When the tool runs, [`CallContext::acting_identity`] contains the
    /// returned identity. If that identity has no [connection](super::ActingIdentity::connection),
    /// the tool must determine the acting identity again, and must not act if the acting identity
    /// has changed. Default: `None`.
    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        let _ = context;
        None
    }

    /// Returns the data that the tool gets from the caller besides its arguments, the user and the
    /// channel, such as further parameters of an MCP request. An approval is valid only for calls
    /// with the same digest, and the person who decides sees the parameters. Called only for calls
    /// that need approval. The returned parameters do not include the trace context; the executor
    /// removes its free text (`tracestate`) from calls that need approval. Default: `None`.
    ///
    /// # Errors
    /// The data cannot be shown to the person who decides; the call then ends with the returned
    /// failure.
    fn forwarded(&self, context: &CallContext) -> Result<Option<ForwardedParameters>, ToolFailure> {
        let _ = context;
        Ok(None)
    }

    /// Returns whether an approver may change the arguments of a call. For example, returns `false`
    /// if a model provider runs the call itself, with the original arguments. Default: `true`.
    fn accepts_edited_arguments(&self) -> bool {
        true
    }

    /// Returns whether the tool does nothing except call other tools. Such a tool needs no permit
    /// of the executor, because its nested calls take one each, and gets
    /// [`CallContext::nested_calls`]. Default: `false`.
    fn makes_calls(&self) -> bool {
        false
    }

    /// Returns the names of the tools that this tool calls, if known. A program that looks up tools
    /// on demand looks up the called tools together with this tool.
    fn called_tools(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Runs the tool. The arguments are validated against the definition's schema, with defaults
    /// filled in. The future is dropped when the deadline passes; a panic becomes `internal_error`.
    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture;
}

/// A tool that consists of a definition and an async function.
pub struct FnTool<F> {
    definition: ToolDefinition,
    function: F,
}

impl<F, Fut> FnTool<F>
where
    F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    /// Creates a tool from a definition and a function.
    pub fn new(definition: ToolDefinition, function: F) -> Self {
        Self {
            definition,
            function,
        }
    }
}

impl<F, Fut> Tool for FnTool<F>
where
    F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin((self.function)(arguments, context))
    }
}
