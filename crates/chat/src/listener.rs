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

/// A listener to the events of a chat. A closure that takes events is a listener.
#[async_trait]
pub trait ChatListener: Send {
    /// Receives an event. Must not block.
    fn on_event(&mut self, event: ChatEvent);

    /// Saves the state of a chat that must survive this process. Called before calls start, and
    /// whenever the state has changed in a way that must not be lost. The chat continues after the
    /// state is saved; an error ends the run. A chat that continues from a saved state runs no tool
    /// twice: the model receives an error result for a call that had started and has no result. The
    /// default implementation does nothing.
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
