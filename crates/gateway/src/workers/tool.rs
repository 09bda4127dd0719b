use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use pillion_core::tool::{
    CallContext, ErrorCode, ForwardedParameters, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolName, ToolOutput,
};
use pillion_mcp_client::ProtocolVersion;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::Workers;
use crate::calling_client::link::ClientLink;
use crate::calling_client::listed_tool::ListedTool;
use crate::upstream::tool::client_link;

/// A tool that one or more workers offer. A call waits for an idle worker.
pub struct WorkerTool {
    definition: ToolDefinition,
    /// The tool's entry as the worker sent it. Two workers with equal entries offer the same tool.
    entry: Map<String, Value>,
    /// The entry of `tools/list`.
    listed_tool: ListedTool,
    timeout: Option<Duration>,
    workers: OnceLock<Weak<Workers>>,
}

impl WorkerTool {
    pub(super) fn new(
        definition: ToolDefinition,
        entry: Map<String, Value>,
        listed_tool: ListedTool,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            definition,
            entry,
            listed_tool,
            timeout,
            workers: OnceLock::new(),
        }
    }

    pub(super) fn set_workers(&self, workers: &Weak<Workers>) {
        self.workers.get_or_init(|| Weak::clone(workers));
    }

    pub(super) fn name(&self) -> &ToolName {
        self.definition.name()
    }

    /// Returns the entry of `tools/list` for clients of this revision.
    ///
    /// # Errors
    /// If the entry cannot be serialized.
    pub fn to_entry(&self, version: ProtocolVersion) -> Result<Box<RawValue>, serde_json::Error> {
        self.listed_tool.to_entry(self.name().as_str(), version)
    }

    /// Returns whether a call that was checked against the tool `other` may be invalid for this
    /// tool.
    pub(super) fn invalidates_calls_of(&self, other: &Self) -> bool {
        let (definition, other_definition) = (&self.definition, &other.definition);
        definition.requires_confirmation() != other_definition.requires_confirmation()
            || definition.input_schema() != other_definition.input_schema()
            || definition.strict() != other_definition.strict()
    }

    /// Returns the error for a call of a tool that has changed since the call was checked.
    pub(super) fn changed_failure(&self) -> ToolFailure {
        let message = format!(
            "Tool '{}' changed while the call was waiting: send the call again",
            self.name()
        );
        ToolFailure::new(ErrorCode::Unavailable, message)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.entry == other.entry
    }

    async fn run(
        &self,
        arguments: JsonObject,
        context: CallContext,
    ) -> Result<ToolOutput, ToolFailure> {
        let stopped_failure = || {
            ToolFailure::new(
                ErrorCode::Unavailable,
                "The sidecar is stopping and runs no more calls",
            )
        };
        let workers = self
            .workers
            .get()
            .and_then(Weak::upgrade)
            .ok_or_else(stopped_failure)?;
        // The worker gets the link to the client only for the client's own request, not for a
        // call that a composed tool makes.
        let link = client_link(&context).cloned();
        let (reply, response) = oneshot::channel();
        let job = Box::new(WorkerJob {
            arguments,
            link,
            context,
            reply,
        });
        workers.submit(self, job)?;
        drop(workers);
        response.await.unwrap_or_else(|_| Err(stopped_failure()))
    }
}

impl Tool for WorkerTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the caller's principal if the user is verified, because the worker gets the
    /// principal. An approval is then valid only for this principal. For an unverified user, the
    /// hash of the approved call covers the principal anyway.
    fn forwarded(&self, context: &CallContext) -> Result<Option<ForwardedParameters>, ToolFailure> {
        let principal = context
            .principal
            .as_ref()
            .filter(|_| context.verified_user().is_some());
        Ok(principal.map(|principal| ForwardedParameters {
            parameters: json!({"principal": principal}),
            digest: principal.clone(),
        }))
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.run(arguments, context).await })
    }
}

impl fmt::Debug for WorkerTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerTool")
            .field("name", self.name())
            .finish_non_exhaustive()
    }
}

/// A call for a worker. If `reply` is closed, the caller no longer waits.
#[derive(Debug)]
pub(super) struct WorkerJob {
    pub(super) arguments: JsonObject,
    pub(super) context: CallContext,
    pub(super) link: Option<Arc<ClientLink>>,
    pub(super) reply: oneshot::Sender<Result<ToolOutput, ToolFailure>>,
}
