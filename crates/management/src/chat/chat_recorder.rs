use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{ChatEnd, ChatError, ChatEvent, ChatListener, ChatState};
use pillion_core::store::{ChatRecord, Store, StoreError, Timestamp};
use pillion_core::tool::ToolFailure;
use pillion_deadline::timeout_at;
use pillion_wire::ChatToolCall;
use tokio::time::Instant;

use super::claim::Claim;
use super::conversation::RecordedCall;
use super::stored_chat::{ChatFailure, ChatRetention, StoredChat};
use super::{ChatOutcome, response};

/// Receives the events of a chat. Must not block.
pub type ChatEventCallback = Box<dyn FnMut(ChatEvent) + Send>;

/// Stores a chat after each step, and forwards its events.
pub(super) struct ChatRecorder {
    store: Arc<dyn Store>,
    pub(super) record: ChatRecord,
    pub(super) stored_chat: StoredChat,
    claim: Claim,
    pub(super) listener: Option<ChatEventCallback>,
    calls: Vec<ChatToolCall>,
}

impl ChatRecorder {
    pub(super) fn new(
        store: Arc<dyn Store>,
        record: ChatRecord,
        stored_chat: StoredChat,
        claim: Claim,
    ) -> Self {
        Self {
            store,
            record,
            stored_chat,
            claim,
            listener: None,
            calls: Vec::new(),
        }
    }

    /// Stores the outcome of a run, and releases the chat. Returns the outcome by
    /// `response_deadline`, even if the store does not respond.
    pub(super) async fn end(
        mut self,
        state: ChatState,
        outcome: Result<ChatEnd, ChatError>,
        response_deadline: Instant,
    ) -> ChatOutcome {
        self.stored_chat.failure = outcome.err().as_ref().map(ChatFailure::from_chat_error);
        let write_outcome = timeout_at(response_deadline, self.write(state)).await;
        let store_timeout = |_| Err(StoreError::unavailable("the store did not respond in time"));
        if let Err(error) = write_outcome.unwrap_or_else(store_timeout) {
            tracing::warn!(chat = self.record.id, %error, "Cannot store a chat");
            let failure = &mut self.stored_chat.failure;
            failure.get_or_insert_with(|| ChatFailure::from_store(&error));
        }
        match self.record.revision {
            0 => self.claim.forget(),
            // Waits for the release of the chat only until `response_deadline`. If the release
            // takes longer, dropping the claim releases the chat in the background.
            _ => drop(timeout_at(response_deadline, self.claim.release()).await),
        }
        let response = self.stored_chat.state.final_response();
        let ending = response.map(|response| response.ending.clone());
        ChatOutcome {
            response: response::from_stored(&self.record.id, &self.stored_chat, self.calls),
            is_stored: self.record.revision > 0,
            ending: ending.unwrap_or_default(),
            failure: self.stored_chat.failure,
            ..ChatOutcome::default()
        }
    }

    async fn write(&mut self, state: ChatState) -> Result<(), StoreError> {
        self.stored_chat.state = state;
        if self.stored_chat.retention == ChatRetention::UntilAnswered && !self.would_repeat_calls()
        {
            return self.forget().await;
        }
        self.save().await
    }

    /// Stores the current state of the chat.
    pub(super) async fn save(&mut self) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let summary = self.stored_chat.summarize(&self.record.id, now);
        let next_record = ChatRecord {
            json: self.stored_chat.to_json(),
            summary: summary.to_json(),
            revision: self.record.revision + 1,
            updated_at: now,
            claim: Some(self.claim.record()),
            ..self.record.clone()
        };
        match self.record.revision {
            0 => self.store.insert_chat(&next_record).await?,
            _ => self.store.replace_chat(&next_record).await?,
        }
        self.record = next_record;
        Ok(())
    }

    /// Returns whether repeating the request would repeat calls, which is the case if the model has
    /// made calls and has not given its final response.
    fn would_repeat_calls(&self) -> bool {
        let state = &self.stored_chat.state;
        state.final_response().is_none() && state.rounds() > 0
    }

    /// Deletes the chat if it was stored.
    async fn forget(&mut self) -> Result<(), StoreError> {
        if self.record.revision > 0 {
            let record = &mut self.record;
            self.store
                .remove_chat_at_revision(&record.owner, &record.id, record.revision)
                .await?;
            record.revision = 0;
        }
        Ok(())
    }
}

#[async_trait]
impl ChatListener for ChatRecorder {
    fn on_event(&mut self, event: ChatEvent) {
        RecordedCall::record_event(&mut self.stored_chat.calls, &event);
        if let ChatEvent::ToolFinished(ended_call) = &event {
            self.calls.push(response::convert_call(ended_call));
        }
        if let Some(listener) = &mut self.listener {
            listener(event);
        }
    }

    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let write_outcome = self.write(state.clone()).await;
        write_outcome.map_err(|error| ToolFailure::new(error.code(), error.to_string()))
    }
}
