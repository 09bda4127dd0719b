//! Delivers the events of a chat run to PHP, and converts the run's outcome to a response.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pillion_chat::{Backlog, ChatEnd, ChatError, ChatEvent, ChatListener, ChatState, EndedCall};
use pillion_client::wire::{ChatApproval, ChatResponse, ChatToolCall, ChatUsage};
use pillion_core::tool::ToolFailure;

use super::job::{ChatJob, QueuedEvent};
use crate::runtime::lock;
use crate::wait::JobSender;

/// Forwards a chat's events to PHP, and keeps the chat's latest state.
pub(super) struct EventForwarder {
    pub(super) job_sender: JobSender<ChatJob>,
    /// The events that were sent to PHP but that PHP has not read yet.
    pub(super) backlog: Arc<Backlog>,
    pub(super) latest_state: Arc<Mutex<ChatState>>,
    /// The finished tool calls of the run.
    pub(super) calls: Vec<ChatToolCall>,
}

#[async_trait]
impl ChatListener for EventForwarder {
    fn on_event(&mut self, event: ChatEvent) {
        if let ChatEvent::ToolFinished(ended_call) = &event {
            self.calls.push(to_chat_tool_call(ended_call));
        }
        if let Some((kind, data)) = event.into_json() {
            let queued_event = QueuedEvent { kind, data };
            self.backlog.add(queued_event.size_bytes());
            (self.job_sender)(ChatJob::Event(queued_event));
        }
    }

    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        lock(&self.latest_state).clone_from(state);
        Ok(())
    }
}

fn to_chat_tool_call(ended_call: &EndedCall) -> ChatToolCall {
    let EndedCall { result, .. } = ended_call;
    ChatToolCall {
        id: result.tool_call_id.clone(),
        name: result.tool_name.clone(),
        arguments: ended_call.arguments(),
        success: result.success,
        content: result.content(),
        error_code: result.error_code.map(|code| code.to_string()),
    }
}

/// The outcome of a chat's run.
pub(super) struct ChatOutcome {
    pub(super) state: ChatState,
    pub(super) outcome: Result<ChatEnd, ChatError>,
    pub(super) calls: Vec<ChatToolCall>,
}

impl ChatOutcome {
    /// Converts the outcome to the format of the sidecar's API.
    pub(super) fn into_response(self, model: &str) -> ChatResponse {
        let Self {
            state,
            outcome,
            calls,
        } = self;
        let error = outcome.as_ref().err();
        let response = state.final_response().filter(|_| error.is_none());
        let waiting_calls = state.waiting_calls();
        let status = if error.is_some() {
            "failed"
        } else if response.is_some() {
            "answered"
        } else {
            "awaiting_approval"
        };
        let usage = state.usage();
        ChatResponse {
            success: response.is_some(),
            id: String::new(),
            model: model.to_owned(),
            status: status.to_owned(),
            content: response.map(|response| response.text.clone()),
            finish_reason: response.map(|response| response.finish.reason().to_owned()),
            limit_reached: response
                .and_then(|response| response.limit_reached)
                .map(|limit| limit.name().to_owned()),
            tool_calls: calls,
            approvals: (waiting_calls.iter())
                .map(|waiting_call| ChatApproval {
                    id: waiting_call.approval_id.clone(),
                    call: waiting_call.call.id.clone(),
                    tool: waiting_call.call.name.clone(),
                    arguments: waiting_call.arguments(),
                })
                .collect(),
            usage: ChatUsage {
                requests: state.requests() as u64,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_tokens: usage.cached_tokens,
            },
            error: error.map(ToString::to_string),
            error_code: error.map(|error| error.code().to_string()),
            retry_after: match error {
                Some(ChatError::Model(error)) => error.retry_after.map(|delay| delay.as_secs_f64()),
                _ => None,
            },
        }
    }
}
