use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{ApprovalPolicy, CallContext, ErrorCode, JsonObject, ToolDefinition, ToolOrigin};

/// What [`Tool::call`] returns: a boxed future, so that the trait can be used as `dyn Tool`.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolFailure>> + Send>>;

/// What [`Tool::acts_as`] returns.
pub type ActsAsFuture = Pin<Box<dyn Future<Output = Result<ActsAs, ToolFailure>> + Send>>;

/// As whom a tool acts for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActsAs {
    /// In whose name: the same text however often the credential is renewed. An approval is for
    /// a call in this name alone, and a tool that is run acts in no other.
    pub identity: String,
    /// With which credential: another text for another one, which is none itself. A kept result
    /// is for calls with this one alone.
    pub credential: String,
}

/// Something that a model can call.
///
/// Implement it for a tool with state; for a single function [`FnTool`] is shorter.
pub trait Tool: Send + Sync + 'static {
    /// The definition. It must not change while the tool is registered: to change it,
    /// register a new tool in its place.
    fn definition(&self) -> &ToolDefinition;

    /// Where the tool comes from; `Native` unless it says otherwise.
    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Native
    }

    /// What stands for all that the tool is beside its name, description and schema: of a tool of
    /// an MCP server, where that is. An approval is good for the tool of this digest alone. None
    /// unless it says otherwise.
    fn digest(&self) -> Option<String> {
        None
    }

    /// Whether lists show the tool. One that is not offered lacks something that it needs; who
    /// calls it all the same is told what. True unless it says otherwise; it must not change
    /// while the tool is registered.
    fn is_offered(&self) -> bool {
        true
    }

    /// Whether calls of it need approval, by what the tool itself brings along: of a tool of an MCP
    /// server, what the server's configuration says (G2). It counts behind what the executor's rules
    /// say of the tool or its server, and before their default. None unless it says otherwise; it
    /// must not change while the tool is registered.
    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        None
    }

    /// How long the tool needs at most, where that is less than other tools are given (N1). A time
    /// that the executor has for this very tool takes its place, and a shorter one for every tool counts.
    /// None unless it says otherwise.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// As whom the tool would act for this caller, where that is not the same for everybody.
    /// Results of such a tool are never kept for anybody else. A failure ends the call, before
    /// anybody is asked to approve of it. When the tool runs, [`CallContext::acts_as`] has what
    /// this said; whoever has taken that one's place meanwhile must not be acted for. None unless
    /// it says otherwise.
    fn acts_as(&self, context: &CallContext) -> Option<ActsAsFuture> {
        let _ = context;
        None
    }

    /// Whether all that the tool does is to call other tools. Then it takes none of the
    /// executor's places, since its calls take one each, and finds
    /// [`CallContext::further_calls`] in its context. No unless it says otherwise.
    fn makes_calls(&self) -> bool {
        false
    }

    /// The names of the tools that it calls, where they are known before: whoever learns of tools
    /// only when somebody asks for them looks for these as well.
    fn called_tools(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Runs the tool. The arguments have been validated against the definition's schema
    /// and defaults are filled in. The future is dropped when the deadline passes; a panic
    /// in it becomes `internal_error`.
    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture;
}

/// What a tool gives back when it worked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// The text for the model, or any JSON value (`result` of the tool result).
    pub result: Value,
    /// The machine-readable form, where it differs from `result`.
    pub data: Option<Value>,
    /// Facts about the run, such as a type or a source.
    pub metadata: JsonObject,
}

impl ToolOutput {
    /// An output that is text only.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::value(Value::String(text.into()))
    }

    /// An output that is one JSON value.
    #[must_use]
    pub fn value(result: Value) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }

    /// Adds the machine-readable form.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds one fact to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Value) -> Self {
        self.metadata.insert(key.into(), value);
        self
    }
}

/// What a tool gives back when it failed: a code, a message that is safe to show, and
/// what there is of a result.
///
/// ```
/// use pillion_core::tool::{ErrorCode, ToolFailure};
/// let failure = ToolFailure::new(ErrorCode::InvalidInput, "No expression provided");
/// assert_eq!(failure.to_string(), "No expression provided");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// The reason, from the fixed set.
    pub code: ErrorCode,
    /// The reason in words, without internals.
    pub message: String,
    /// What the tool returned all the same, such as the content of an MCP result with
    /// `isError`.
    pub result: Value,
    /// Facts about the run, as those of a [`ToolOutput`]. Boxed, so that results stay small.
    pub metadata: Box<JsonObject>,
}

/// How long to wait, in whole seconds and rounded up: waiting so long is always enough.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun)
}

impl ToolFailure {
    /// A failure without a result.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            result: Value::Null,
            metadata: Box::default(),
        }
    }

    /// The arguments were wrong in a way that the schema could not say.
    #[must_use]
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidInput, message)
    }

    /// The tool failed, or we did.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// Adds what the tool returned all the same.
    #[must_use]
    pub fn with_result(mut self, result: Value) -> Self {
        self.result = result;
        self
    }

    /// Adds one fact to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Value) -> Self {
        self.metadata.insert(key.into(), value);
        self
    }

    /// Says when a new try makes sense: `retry_after` in the metadata, in
    /// [whole seconds](whole_seconds).
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Self {
        self.with_metadata("retry_after", whole_seconds(wait).into())
    }
}

/// A tool made of a definition and an async function.
pub struct FnTool<F> {
    definition: ToolDefinition,
    function: F,
}

impl<F, Fut> FnTool<F>
where
    F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    /// Puts the two together.
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
