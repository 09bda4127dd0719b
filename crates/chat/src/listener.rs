use async_trait::async_trait;
use pillion_core::tool::{ToolCall, ToolFailure, ToolResult};

use crate::{ChatAnswer, ChatState, Delta, Usage, WaitingCall};

/// What happens in a chat, in its order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChatEvent {
    /// A piece of the model's answer, where the chat is streamed. After a failure in the middle of
    /// an answer the next run begins that answer anew.
    Delta(Delta),
    /// A line for people (requirement H6): `Executing a, b...`, and
    /// `Maximum tool execution rounds reached. Generating final response...`.
    Status(String),
    /// What the answer to one request cost, and all of the chat up to there.
    Usage {
        /// The request's number in the chat, from 1.
        request: usize,
        /// Its cost.
        usage: Usage,
        /// That of all up to it.
        total: Usage,
    },
    /// A call begins.
    ToolStarted(ToolCall),
    /// A call has ended, well or not; also one that was not begun.
    ToolFinished(EndedCall),
    /// A call waits for somebody's approval.
    ToolWaiting(WaitingCall),
    /// The chat is over. Nothing comes after it.
    Done(ChatAnswer),
}

/// A call that has ended, well or not.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedCall {
    /// The call as the model made it.
    pub call: ToolCall,
    /// What came of it.
    pub result: ToolResult,
}

/// Whoever follows a chat. A closure that takes events is one.
#[async_trait]
pub trait ChatListener: Send {
    /// Hears of what has happened. It must not block.
    fn hear(&mut self, event: ChatEvent);

    /// Keeps the state, for a chat that has to survive this process: before calls begin, and
    /// whenever something is there that must not be lost. The chat goes on when it is kept; a failure
    /// ends it. A chat that goes on from what was kept runs no tool a second time: a call that had
    /// begun and has no result is told to the model as cut off. Does nothing unless it says otherwise.
    async fn keep(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let _ = state;
        Ok(())
    }
}

#[async_trait]
impl<F: FnMut(ChatEvent) + Send> ChatListener for F {
    fn hear(&mut self, event: ChatEvent) {
        self(event);
    }
}
