use async_trait::async_trait;
use pillion_core::tool::{ToolCall, ToolFailure, ToolResult};

use crate::{ChatState, Delta, FinalResponse, Usage, WaitingCall};

/// An event of a chat. Events arrive in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChatEvent {
    /// A piece of the model's response, if the chat is streamed. After a failure in the middle of a
    /// response, the next run begins the response again.
    Delta(Delta),
    /// A human-readable status line: `Executing a, b...` or `Maximum tool execution rounds reached.
    /// Generating final response...`.
    Status(String),
    /// The token usage of one request, and of the chat up to and including this request.
    Usage {
        /// The number of the request in the chat, from 1.
        request: usize,
        /// The token usage of the request.
        usage: Usage,
        /// The token usage of the chat, including the request.
        total: Usage,
    },
    /// A call starts.
    ToolStarted(ToolCall),
    /// A call has ended, successfully or not. Also sent for a call that never started.
    ToolFinished(EndedCall),
    /// A call waits for approval.
    ToolWaiting(WaitingCall),
    /// The chat has ended. No event follows.
    Done(FinalResponse),
}

/// A call that has ended, successfully or not.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedCall {
    /// The call as the model made it.
    pub call: ToolCall,
    /// The result of the call, successful or not, as the model reads it.
    pub result: ToolResult,
}

/// Receives the events of a chat. A closure that takes a [`ChatEvent`] implements this trait.
#[async_trait]
pub trait ChatListener: Send {
    /// Receives an event. Must not block.
    fn on_event(&mut self, event: ChatEvent);

    /// Saves the state, so that another process can continue the chat. Called before calls start,
    /// and after every change that must not be lost. The chat waits until the state is saved; an
    /// error ends the run. The default implementation does nothing, for chats that need not survive
    /// this process.
    ///
    /// A chat that continues from a saved state runs no tool twice: if a call had started and has
    /// no result, the model receives an error as the result.
    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let _ = state;
        Ok(())
    }
}

#[async_trait]
impl<F: FnMut(ChatEvent) + Send> ChatListener for F {
    fn on_event(&mut self, event: ChatEvent) {
        self(event);
    }
}
