use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{
    Answer, Backlog, Conversation, Delta, HttpModel, LanguageModel, ModelError, Turn,
};
use pillion_core::provider::Provider;
use serde_json::Value;

/// A model whose answers are read no faster than PHP reads what it is told of them. Nothing else of the
/// chat waits for that: tools that run, and its deadline, go on.
pub(super) struct PacedModel {
    pub(super) model: HttpModel,
    /// What PHP has been told and has not read.
    pub(super) backlog: Arc<Backlog>,
}

#[async_trait]
impl LanguageModel for PacedModel {
    fn provider(&self) -> Provider {
        self.model.provider()
    }

    fn conversation(&self, messages: &[Value]) -> Result<Conversation, ModelError> {
        self.model.conversation(messages)
    }

    async fn respond(
        &self,
        turn: &Turn<'_>,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, ModelError> {
        self.backlog.pace(self.model.respond(turn, listener)).await
    }
}
