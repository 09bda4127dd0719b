use pillion_mcp_client::{AuthorizationResponse, Progress, PromptError, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::desk::Ticket;
use crate::wait::Reply;

/// A job that the engine passes to the PHP thread that waits for a call.
pub enum Errand {
    /// The server sends a request.
    Question(Question),
    /// A call reports progress.
    Progress {
        /// The index of the call among those that are waited for.
        call: usize,
        /// The progress.
        progress: Progress,
        /// Held until the progress has been reported.
        ticket: Ticket,
    },
    /// The user must grant an authorization.
    Authorize {
        /// The URL of the authorization page.
        url: String,
        /// Receives the authorization response from the browser's redirect.
        reply: Reply<Result<AuthorizationResponse, PromptError>>,
    },
    /// There are notifications for the object, or a job at the desk.
    Look,
}

impl Errand {
    /// Returns whether nothing waits for the outcome of the job any more.
    pub fn is_abandoned(&self) -> bool {
        match self {
            Self::Question(question) => question.is_abandoned(),
            Self::Authorize { reply, .. } => reply.is_abandoned(),
            Self::Progress { .. } | Self::Look => false,
        }
    }
}

/// The kinds of requests that a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A completion by a language model.
    Sampling,
    /// Input from the user.
    Elicitation,
}

/// A request from the server.
pub struct Question {
    /// The kind of the request.
    pub asked: Asked,
    /// The parameters, as the server wrote them.
    pub params: Box<RawValue>,
    reply: Reply<Result<Value, RpcError>>,
}

impl Question {
    /// Creates a request and the receiver of its answer.
    pub fn new(
        asked: Asked,
        params: Box<RawValue>,
    ) -> (Self, oneshot::Receiver<Result<Value, RpcError>>) {
        let (reply, answer) = Reply::new();
        let question = Self {
            asked,
            params,
            reply,
        };
        (question, answer)
    }

    /// Returns whether nothing waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    /// Sends the answer. A late answer is dropped.
    pub fn answer(self, outcome: Result<Value, RpcError>) {
        self.reply.send(outcome);
    }
}
