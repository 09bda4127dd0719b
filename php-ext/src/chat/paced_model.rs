use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{
    Backlog, Delta, HttpModel, LanguageModel, ModelError, ModelTurn, ProviderConversation,
    TurnResponse,
};
use pillion_providers::Provider;
use serde_json::Value;

/// Wraps a language model, so that its responses are read no faster than PHP reads the events. Only
/// the model's responses are slowed down: running tools and the chat's deadline do not wait for
/// PHP.
pub(super) struct PacedModel {
    pub(super) model: HttpModel,
    /// The events that were sent to PHP but that PHP has not read yet.
    pub(super) backlog: Arc<Backlog>,
}

#[async_trait]
impl LanguageModel for PacedModel {
    fn provider(&self) -> Provider {
        self.model.provider()
    }

    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        self.model.conversation(messages)
    }

    async fn respond(
        &self,
        turn: &ModelTurn<'_>,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<TurnResponse, ModelError> {
        self.backlog.pace(self.model.respond(turn, listener)).await
    }
}
