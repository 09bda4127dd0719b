use pillion_core::mcp::{AuthorizationResponse, Progress, PromptError, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::desk::Ticket;
use crate::wait::Reply;

/// What the engine asks of the PHP thread that waits for a call.
pub enum Errand {
    /// The server wants to know something.
    Question(Question),
    /// A call has come further.
    Progress {
        /// Which of the calls that are waited for.
        call: usize,
        /// How far.
        progress: Progress,
        /// Held until it has been told.
        ticket: Ticket,
    },
    /// A person has to give an authorization.
    Authorize {
        /// The page.
        url: String,
        /// Where the browser's return is told.
        reply: Reply<Result<AuthorizationResponse, PromptError>>,
    },
    /// There are notices for the object, or something at the desk that is to be taken.
    Look,
}

impl Errand {
    /// Whether nobody waits any more for what comes of it.
    pub fn is_abandoned(&self) -> bool {
        match self {
            Self::Question(question) => question.is_abandoned(),
            Self::Authorize { reply, .. } => reply.is_abandoned(),
            Self::Progress { .. } | Self::Look => false,
        }
    }
}

/// What a server may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A completion by a model.
    Sampling,
    /// Something of the user.
    Elicitation,
}

/// A request of the server's.
pub struct Question {
    /// What it asks for.
    pub asked: Asked,
    /// As the server wrote them.
    pub params: Box<RawValue>,
    reply: Reply<Result<Value, RpcError>>,
}

impl Question {
    /// A request, and where its answer will come.
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

    /// Whether nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    /// Answers. An answer that comes too late is dropped.
    pub fn answer(self, outcome: Result<Value, RpcError>) {
        self.reply.send(outcome);
    }
}
