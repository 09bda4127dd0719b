use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{
    ApprovalPolicy, CallContext, ErrorCode, JsonObject, Link, ServerResponse, ToolDefinition,
    ToolOrigin,
};

/// The return type of [`Tool::call`]: a boxed future, so that the trait is object-safe.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolFailure>> + Send>>;

/// The return type of [`Tool::acting_identity`].
pub type ActingIdentityFuture =
    Pin<Box<dyn Future<Output = Result<ActingIdentity, ToolFailure>> + Send>>;

/// The identity and credential with which a tool acts for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActingIdentity {
    /// The acting identity; does not change when the credential is renewed. Approvals are bound to
    /// it, and the tool must not act under another identity.
    pub identity: String,
    /// Identifies the credential without containing it; changes with the credential. Cached results
    /// are bound to it.
    pub credential: String,
    /// What the tool uses to act, such as a connection that has the credential, so that the tool
    /// need not read the credential again when it runs. Opaque to the executor. A call that waited
    /// for the decision of an approver runs without it: the credential may be gone by then.
    pub connection: Option<Link>,
}

impl ActingIdentity {
    /// Creates an identity and credential without a connection.
    #[must_use]
    pub fn new(identity: impl Into<String>, credential: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            credential: credential.into(),
            connection: None,
        }
    }
}

/// What a tool gets from the caller besides its arguments, the user and the channel.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardedParameters {
    /// The parameters, for the person who decides on an approval.
    pub shown: Value,
    /// Identifies the parameters exactly, as the tool gets them.
    pub digest: String,
}

/// A tool that a model can call.
///
/// Implement this trait for a tool with state; for a single function, use [`FnTool`].
pub trait Tool: Send + Sync + 'static {
    /// Returns the definition. It must not change while the tool is registered: register a new tool
    /// instead.
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

    /// Returns the tool's own name on its MCP server. Default: `None`, for a tool of no server.
    fn name_on_server(&self) -> Option<&str> {
        None
    }

    /// Returns whether lists show the tool. A tool that is not offered lacks something that it
    /// needs; a call of the tool returns an error that says what. Must not change while the tool is
    /// registered. Default: `true`.
    fn is_offered(&self) -> bool {
        true
    }

    /// Returns the tool's own approval policy, for example from the configuration of its MCP
    /// server. The executor's rules for the tool or its server take precedence over it, and it
    /// takes precedence over their default. Must not change while the tool is registered. Default:
    /// `None`.
    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        None
    }

    /// Returns the maximum duration of the tool's calls. A configured timeout of this tool takes
    /// precedence, and the timeout for all tools remains an upper limit. Default: `None`.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the acting identity for this caller, if it depends on the caller. Results of such a
    /// tool are cached only for the same caller. A failure ends the call before an approval is
    /// requested. When the tool runs, [`CallContext::acting_identity`] contains the returned identity. If it
    /// has no [connection](ActingIdentity::connection) and the identity has changed since, the tool must not
    /// act. Default: `None`.
    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        let _ = context;
        None
    }

    /// Returns what the tool gets from the caller besides its arguments, the user and the channel,
    /// such as further parameters of an MCP request. An approval is valid only for calls with the
    /// same digest, and the person who decides sees the parameters. Called only for calls that need
    /// approval. The position in a distributed trace does not belong to it: the executor removes
    /// its `tracestate` from such calls. Default: `None`.
    ///
    /// # Errors
    /// If a person could not see what the tool gets; the call then ends with the failure.
    fn forwarded(&self, context: &CallContext) -> Result<Option<ForwardedParameters>, ToolFailure> {
        let _ = context;
        Ok(None)
    }

    /// Returns whether an approver may change the arguments of a call. `false` if something else
    /// than this tool runs the call, with its own arguments. Default: `true`.
    fn accepts_edited_arguments(&self) -> bool {
        true
    }

    /// Returns whether the tool does nothing except call other tools. Such a tool needs no permit
    /// of the executor, because its nested calls take one each, and gets
    /// [`CallContext::further_calls`]. Default: `false`.
    fn makes_calls(&self) -> bool {
        false
    }

    /// Returns the names of the tools that this tool calls, if known. Where tools are looked up on
    /// demand, these are looked up with this tool.
    fn called_tools(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Runs the tool. The arguments are validated against the definition's schema, with defaults
    /// filled in. The future is dropped when the deadline passes; a panic becomes `internal_error`.
    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture;
}

/// The output of a successful call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// The output for the model: text or any JSON value (`result` of the tool result).
    pub result: Value,
    /// The output for programs, if it differs from `result`.
    pub data: Option<Value>,
    /// Information about the run, such as a type or a source.
    pub metadata: JsonObject,
    /// The MCP server's response from which `result` was read, if the caller forwards responses.
    /// Not part of a cached result.
    pub response: Option<ServerResponse>,
}

impl ToolOutput {
    /// Creates an output that consists of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::value(Value::String(text.into()))
    }

    /// Creates an output that consists of a JSON value.
    #[must_use]
    pub fn value(result: Value) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }

    /// Returns a copy of this output for the result cache: without the server's response, which
    /// would need as much memory as the result again.
    pub(crate) fn without_response(&self) -> Self {
        Self {
            result: self.result.clone(),
            data: self.data.clone(),
            metadata: self.metadata.clone(),
            response: None,
        }
    }

    /// Sets the output for programs.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds an entry to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Value) -> Self {
        self.metadata.insert(key.into(), value);
        self
    }
}

/// A failed call: an error code, an error message that is safe to show, and an optional result.
///
/// ```
/// use pillion_core::tool::{ErrorCode, ToolFailure};
/// let failure = ToolFailure::new(ErrorCode::InvalidInput, "No expression provided");
/// assert_eq!(failure.to_string(), "No expression provided");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// The error code.
    pub code: ErrorCode,
    /// The error message, without internal details.
    pub message: String,
    /// The result that the tool returned despite the failure, such as the content of an MCP result
    /// with `isError`.
    pub result: Value,
    /// Information about the run, as in [`ToolOutput`]. Boxed, so that results stay small.
    pub metadata: Box<JsonObject>,
    /// The MCP server's response, as in [`ToolOutput`]: a result with `isError`, or an error. Boxed,
    /// so that results stay small.
    pub response: Option<Box<ServerResponse>>,
}

/// Rounds a wait up to whole seconds, so that waiting that long is always enough.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun)
}

impl ToolFailure {
    /// Creates a failure without a result.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            result: Value::Null,
            metadata: Box::default(),
            response: None,
        }
    }

    /// Creates a failure for arguments that are invalid in a way that the schema cannot express.
    #[must_use]
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidInput, message)
    }

    /// Creates a failure of the tool or of Pillion.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// Sets the result that the tool returned despite the failure.
    #[must_use]
    pub fn with_result(mut self, result: Value) -> Self {
        self.result = result;
        self
    }

    /// Adds an entry to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Value) -> Self {
        self.metadata.insert(key.into(), value);
        self
    }

    /// Sets `retry_after` in the metadata to the time after which a retry makes sense, in [whole
    /// seconds](whole_seconds).
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Self {
        self.with_metadata("retry_after", whole_seconds(wait).into())
    }
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
