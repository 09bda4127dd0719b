use std::sync::Arc;

use pillion_core::tool::{CallContext, JsonObject, ToolFailure, ToolOutput};
use tokio::sync::oneshot;

use crate::calling_client::link::ClientLink;

/// A call for a worker. If `reply` is closed, the caller has given up.
#[derive(Debug)]
pub(super) struct WorkerJob {
    pub(super) arguments: JsonObject,
    pub(super) context: CallContext,
    pub(super) link: Option<Arc<ClientLink>>,
    pub(super) reply: oneshot::Sender<Result<ToolOutput, ToolFailure>>,
}
