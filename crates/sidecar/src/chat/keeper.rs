use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{ChatEnd, ChatError, ChatEvent, ChatListener, ChatState};
use pillion_core::store::{ChatRecord, Store, StoreError, Timestamp};
use pillion_core::tool::ToolFailure;
use pillion_wire::{ChatAnswer, ChatToolCall};
use serde_json::Value;

use super::answer;
use super::kept::{Failure, Kept, Stays};

/// Hears what happens in a chat; it must not block.
pub(crate) type Listener = Box<dyn FnMut(ChatEvent) + Send>;

/// Keeps a chat at each step, and tells who listens.
pub(super) struct Keeper {
    store: Arc<dyn Store>,
    record: ChatRecord,
    kept: Kept,
    listener: Option<Listener>,
    /// What calls that run were given.
    arguments: HashMap<String, Value>,
    calls: Vec<ChatToolCall>,
}

impl Keeper {
    pub(super) fn new(
        store: Arc<dyn Store>,
        record: ChatRecord,
        kept: Kept,
        listener: Option<Listener>,
    ) -> Self {
        Self {
            store,
            record,
            kept,
            listener,
            arguments: HashMap::new(),
            calls: Vec::new(),
        }
    }

    /// Keeps how the run has ended; what to answer.
    pub(super) async fn end(
        mut self,
        state: ChatState,
        outcome: Result<ChatEnd, ChatError>,
    ) -> ChatAnswer {
        self.kept.failure = outcome.err().map(|error| Failure {
            code: error.code().to_string(),
            message: error.to_string(),
            retry_after: answer::retry_after(&error),
        });
        if let Err(error) = self.write(state).await {
            tracing::warn!(chat = self.record.id, %error, "A chat cannot be kept");
            self.kept.failure.get_or_insert_with(|| Failure {
                code: error.code().to_string(),
                message: format!("The chat could not be kept: {error}"),
                retry_after: None,
            });
        }
        answer::of(&self.record.id, &self.kept, self.calls)
    }

    async fn write(&mut self, state: ChatState) -> Result<(), StoreError> {
        self.kept.state = state;
        if self.kept.stays == Stays::UntilAnswered && self.kept.state.answer().is_some() {
            return self.forget().await;
        }
        let next = ChatRecord {
            json: self.kept.to_json(),
            revision: self.record.revision + 1,
            updated_at: Timestamp::now(),
            ..self.record.clone()
        };
        match self.record.revision {
            0 => self.store.insert_chat(&next).await?,
            _ => self.store.replace_chat(&next).await?,
        }
        self.record = next;
        Ok(())
    }

    /// Keeps it no longer, if it was kept.
    async fn forget(&mut self) -> Result<(), StoreError> {
        if self.record.revision > 0 {
            let ChatRecord { owner, id, .. } = &self.record;
            self.store.remove_chat(owner, id).await?;
            self.record.revision = 0;
        }
        Ok(())
    }
}

#[async_trait]
impl ChatListener for Keeper {
    fn hear(&mut self, event: ChatEvent) {
        match &event {
            ChatEvent::ToolStarted(call) => {
                let arguments = call.arguments.clone();
                self.arguments.insert(call.id.clone(), arguments);
            }
            ChatEvent::ToolFinished(result) => {
                let arguments = self.arguments.remove(&result.tool_call_id);
                self.calls.push(answer::call(result, arguments));
            }
            _ => {}
        }
        if let Some(listener) = &mut self.listener {
            listener(event);
        }
    }

    async fn keep(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let kept = self.write(state.clone()).await;
        kept.map_err(|error| ToolFailure::new(error.code(), error.to_string()))
    }
}
