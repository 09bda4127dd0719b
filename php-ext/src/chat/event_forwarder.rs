//! Delivers the events of a chat's run, and the run's outcome.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pillion_chat::{Backlog, ChatEnd, ChatError, ChatEvent, ChatListener, ChatState, EndedCall};
use pillion_client::wire::{ChatApproval, ChatResponse, ChatToolCall, ChatUsage};
use pillion_core::tool::ToolFailure;

use super::job::{ChatJob, QueuedEvent};
use crate::wait::JobSender;

/// Forwards a chat's events to PHP, and keeps the chat's latest state.
pub(super) struct EventForwarder {
    pub(super) jobs: JobSender<ChatJob>,
    /// The events that were sent to PHP, and that PHP has not read yet.
    pub(super) backlog: Arc<Backlog>,
    pub(super) latest_state: Arc<Mutex<ChatState>>,
    /// The tool calls of the run that have finished.
    pub(super) calls: Vec<ChatToolCall>,
}

#[async_trait]
impl ChatListener for EventForwarder {
    fn on_event(&mut self, event: ChatEvent) {
        if let ChatEvent::ToolFinished(ended) = &event {
            self.calls.push(call_of(ended));
        }
        if let Some((kind, data)) = event.into_json() {
            let event = QueuedEvent { kind, data };
            self.backlog.add(event.size());
            (self.jobs)(ChatJob::Event(event));
        }
    }

    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let mut latest_state = self
            .latest_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        latest_state.clone_from(state);
        Ok(())
    }
}

fn call_of(ended: &EndedCall) -> ChatToolCall {
    let EndedCall { result, .. } = ended;
    ChatToolCall {
        id: result.tool_call_id.clone(),
        name: result.tool_name.clone(),
        arguments: ended.arguments(),
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
        let waiting = state.waiting();
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
            approvals: (waiting.iter())
                .map(|waiting| ChatApproval {
                    id: waiting.approval_id.clone(),
                    call: waiting.call.id.clone(),
                    tool: waiting.call.name.clone(),
                    arguments: waiting.arguments(),
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
                Some(ChatError::Model(error)) => error.retry_after.map(|after| after.as_secs_f64()),
                _ => None,
            },
        }
    }
}
