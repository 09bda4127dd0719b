use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{ChatEnd, ChatError, ChatEvent, ChatListener, ChatState};
use pillion_core::store::{ChatRecord, Store, StoreError, Timestamp};
use pillion_core::tool::ToolFailure;
use pillion_deadline::timeout_at;
use pillion_wire::ChatToolCall;
use tokio::time::Instant;

use super::claim::Claim;
use super::stored_chat::{ChatFailure, ChatRetention, StoredChat};
use super::{ChatOutcome, response};

/// Receives the events of a chat. Must not block.
pub(crate) type Listener = Box<dyn FnMut(ChatEvent) + Send>;

/// Stores a chat after each step, and forwards its events.
pub(super) struct ChatRecorder {
    store: Arc<dyn Store>,
    pub(super) record: ChatRecord,
    pub(super) stored_chat: StoredChat,
    claim: Claim,
    pub(super) listener: Option<Listener>,
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

    /// Stores the outcome of a run, and releases the chat. Returns the outcome by `respond_by`,
    /// even if the store does not respond.
    pub(super) async fn end(
        mut self,
        state: ChatState,
        outcome: Result<ChatEnd, ChatError>,
        respond_by: Instant,
    ) -> ChatOutcome {
        self.stored_chat.failure = outcome.err().as_ref().map(ChatFailure::from_chat_error);
        let written = timeout_at(respond_by, self.write(state)).await;
        let too_late = |_| Err(StoreError::unavailable("the store did not respond in time"));
        if let Err(error) = written.unwrap_or_else(too_late) {
            tracing::warn!(chat = self.record.id, %error, "Cannot store a chat");
            self.stored_chat
                .failure
                .get_or_insert_with(|| ChatFailure::from_store(&error));
        }
        match self.record.revision {
            0 => self.claim.forget(),
            // If the release takes longer, dropping the claim releases the chat.
            _ => drop(timeout_at(respond_by, self.claim.release()).await),
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
        if self.stored_chat.stays == ChatRetention::UntilAnswered && !self.would_repeat_calls() {
            return self.forget().await;
        }
        self.save().await
    }

    /// Stores the chat as it is now.
    pub(super) async fn save(&mut self) -> Result<(), StoreError> {
        let next = ChatRecord {
            json: self.stored_chat.to_json(),
            summary: self.stored_chat.summary(&self.record.id),
            revision: self.record.revision + 1,
            updated_at: Timestamp::now(),
            claim: Some(self.claim.record()),
            ..self.record.clone()
        };
        match self.record.revision {
            0 => self.store.insert_chat(&next).await?,
            _ => self.store.replace_chat(&next).await?,
        }
        self.record = next;
        Ok(())
    }

    /// Returns whether repeating the request would repeat calls: the chat is unanswered, and calls
    /// were made.
    fn would_repeat_calls(&self) -> bool {
        let state = &self.stored_chat.state;
        state.final_response().is_none() && state.rounds() > 0
    }

    /// Deletes the chat if it was stored.
    async fn forget(&mut self) -> Result<(), StoreError> {
        if self.record.revision > 0 {
            let record = &mut self.record;
            self.store
                .remove_revision(&record.owner, &record.id, record.revision)
                .await?;
            record.revision = 0;
        }
        Ok(())
    }
}

#[async_trait]
impl ChatListener for ChatRecorder {
    fn on_event(&mut self, event: ChatEvent) {
        if let ChatEvent::ToolFinished(ended) = &event {
            self.calls.push(response::call(ended));
        }
        if let Some(listener) = &mut self.listener {
            listener(event);
        }
    }

    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let written = self.write(state.clone()).await;
        written.map_err(|error| ToolFailure::new(error.code(), error.to_string()))
    }
}
