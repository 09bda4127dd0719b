use async_trait::async_trait;
use pillion_providers::{
    Delta, ModelError, ModelTurn, Provider, ProviderConversation, TurnResponse,
};
use serde_json::Value;

/// A language model at a provider, or a substitute for one.
///
/// The trait is object-safe, so that a chat loop, a tool or a test can hold an
/// `Arc<dyn LanguageModel>`.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// Returns the provider whose format the conversation and the responses have.
    fn provider(&self) -> Provider;

    /// Converts messages to the format of [`provider`](Self::provider). The input has the format of
    /// OpenAI's Chat Completions, which applications use: `{role, content, ...}`, including
    /// `tool_calls` and messages of role `tool` from earlier turns.
    ///
    /// # Errors
    /// [`Rejected`](crate::ModelErrorKind::Rejected), with the path of the invalid part, such as
    /// `messages[3].content[0]`.
    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError>;

    /// Sends one turn to the model and returns the complete response. If the turn requests
    /// streaming, `listener` also receives the pieces of the response as they arrive.
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`ModelError`]: the request failed or the response was invalid, and possible retries failed,
    /// too.
    async fn respond(
        &self,
        turn: &ModelTurn<'_>,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<TurnResponse, ModelError>;
}
