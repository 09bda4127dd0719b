use std::sync::Arc;

use pillion_chat::{ChatEvent, ChatLoop, ChatState};
use pillion_core::tool::ToolDefinition;
use pillion_wire::ChatResponse;
use uuid::Uuid;

use super::stored_chat::ChatFailure;
use super::{
    ChatEventCallback, ChatOutcome, NewChat, Result, complete_options, find_model, provider_client,
    response,
};
use pillion_gateway::Gateway;

/// One turn of a model that uses only the client's own tools: calls are returned to the client, and
/// nothing is stored. The limits of chats apply.
pub struct ClientToolTurn {
    id: String,
    model: String,
    chat_loop: ChatLoop,
    state: ChatState,
}

impl ClientToolTurn {
    /// Reads the conversation, without calling the model.
    ///
    /// # Errors
    /// There is no such model, the model is misconfigured, or the messages are invalid.
    pub fn begin(
        gateway: &Gateway,
        new_chat: NewChat,
        tools: Vec<Arc<ToolDefinition>>,
    ) -> Result<Self> {
        let model = find_model(gateway, new_chat.model.as_deref())?;
        let chat_loop = ChatLoop::new(
            provider_client(model)?,
            Arc::new(gateway.executor().clone()),
        )
        .with_tools(tools)
        .with_options(complete_options(model, new_chat.options))
        .with_limits(gateway.models().limits(model));
        Ok(Self {
            id: Uuid::now_v7().to_string(),
            model: model.config.id.clone(),
            state: new_chat.input.begin(&chat_loop)?,
            chat_loop,
        })
    }

    /// Returns the ID of the turn.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the model's ID.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Calls the model. Sends parts of the response to `listener` as they arrive.
    pub async fn run(mut self, listener: Option<ChatEventCallback>) -> ChatOutcome {
        let chat_loop = self.chat_loop.with_streaming(listener.is_some());
        let mut listener = listener.unwrap_or_else(|| Box::new(|_| {}));
        let mut forward = |event: ChatEvent| listener(event);
        let turn = chat_loop.turn(&mut self.state, &mut forward).await;
        let mut outcome = ChatOutcome {
            response: ChatResponse {
                success: turn.is_ok(),
                id: self.id,
                model: self.model,
                status: if turn.is_ok() { "answered" } else { "failed" }.to_owned(),
                usage: response::convert_usage(&self.state),
                ..ChatResponse::default()
            },
            ..ChatOutcome::default()
        };
        let response = &mut outcome.response;
        match turn {
            Ok(turn) => {
                response.finish_reason = Some(turn.finish.reason().to_owned());
                response.content = Some(turn.text);
                outcome.calls = turn.calls;
                outcome.provider_members = turn.provider_members;
                outcome.ending = turn.ending;
            }
            Err(error) => {
                let failure = ChatFailure::from_chat_error(&error);
                response.error = Some(failure.message.clone());
                response.error_code = Some(failure.code.clone());
                response.retry_after = failure.retry_after;
                outcome.failure = Some(failure);
            }
        }
        outcome
    }
}
