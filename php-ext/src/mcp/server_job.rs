use pillion_mcp_client::{AuthorizationResponse, ProgressNotification, PromptError, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::router::ProgressPermit;
use crate::wait::ReplySender;

/// A job that the engine passes to the PHP thread that waits for a call.
pub enum ServerJob {
    /// The server sends a request.
    Request(ServerRequest),
    /// A call reports progress.
    Progress {
        /// The index of the call among the calls that PHP waits for.
        call_index: usize,
        /// The progress that the server reports.
        progress: ProgressNotification,
        /// Counts the report as pending until PHP has received the report.
        permit: ProgressPermit,
    },
    /// The user must grant an authorization.
    Authorize {
        /// The URL of the authorization page.
        url: String,
        /// Receives the authorization response from the browser's redirect.
        reply_sender: ReplySender<Result<AuthorizationResponse, PromptError>>,
    },
    /// Wakes the PHP thread, because the object has pending notifications or the router has a job.
    Wake,
}

impl ServerJob {
    /// Returns whether the outcome of the job is no longer needed, because its receiver was
    /// dropped.
    pub fn is_abandoned(&self) -> bool {
        match self {
            Self::Request(request) => request.is_abandoned(),
            Self::Authorize { reply_sender, .. } => reply_sender.is_abandoned(),
            Self::Progress { .. } | Self::Wake => false,
        }
    }
}

/// The kinds of requests that a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRequestKind {
    /// The server requests a completion from a language model.
    Sampling,
    /// The server requests input from the user.
    Elicitation,
}

/// A request that the MCP server has sent and that a PHP callback handles.
pub struct ServerRequest {
    /// The kind of the request.
    pub kind: ServerRequestKind,
    /// The parameters of the request, as the server wrote them.
    pub params: Box<RawValue>,
    reply_sender: ReplySender<Result<Value, RpcError>>,
}

impl ServerRequest {
    /// Creates a request, and the receiver of the response.
    pub fn new(
        kind: ServerRequestKind,
        params: Box<RawValue>,
    ) -> (Self, oneshot::Receiver<Result<Value, RpcError>>) {
        let (reply_sender, response) = ReplySender::new();
        let request = Self {
            kind,
            params,
            reply_sender,
        };
        (request, response)
    }

    /// Returns whether the response is no longer needed, because its receiver was dropped.
    pub fn is_abandoned(&self) -> bool {
        self.reply_sender.is_abandoned()
    }

    /// Sends the response. A late response is dropped.
    pub fn respond(self, outcome: Result<Value, RpcError>) {
        self.reply_sender.send(outcome);
    }
}
