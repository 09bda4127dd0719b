//! A request with tools of the client's own: one turn of the model, whose calls go back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::response::{IntoResponse, Response};
use pillion_chat::{
    Answer, Conversation, LanguageModel, ModelError, ModelErrorKind, Turn, TurnOptions, Usage,
};
use pillion_core::provider::{assistant_text, parse_tool_calls};
use pillion_core::tool::ToolDefinition;
use pillion_wire::ChatUsage;
use serde_json::{Value, json};
use uuid::Uuid;

use super::stream::{Chunks, data};
use super::{answer, error_body};
use crate::chat::ChatRefusal;
use crate::routes::event_stream;

/// What the model is asked.
pub(super) struct OneTurn {
    pub(super) voice: Arc<dyn LanguageModel>,
    pub(super) model: String,
    pub(super) messages: Vec<Value>,
    pub(super) tools: Vec<Arc<ToolDefinition>>,
    pub(super) options: TurnOptions,
    pub(super) timeout: Duration,
}

impl OneTurn {
    /// The whole answer.
    pub(super) async fn answer(self) -> Result<Response, ChatRefusal> {
        let conversation = self.voice.conversation(&self.messages)?;
        let answer = self.ask(&conversation, false, &mut |_| {}).await?;
        let id = Uuid::now_v7().to_string();
        let message = self.message(&answer)?;
        let reason = answer.finish.reason();
        let usage = cost(answer.usage);
        let completion = answer::completion(&id, &self.model, &message, reason, &usage);
        Ok(Json(completion).into_response())
    }

    /// The answer in chunks.
    pub(super) fn stream(self, wants_usage: bool) -> Result<Response, ChatRefusal> {
        let conversation = self.voice.conversation(&self.messages)?;
        let id = Uuid::now_v7().to_string();
        let chunks = Chunks::new(&id, &self.model, wants_usage);
        Ok(event_stream::response(|events| async move {
            drop(events.send(chunks.first()));
            let mut listening = chunks.clone();
            let mut listener = |delta| {
                if let Some(bytes) = listening.piece_with_calls(delta) {
                    drop(events.send(bytes));
                }
            };
            let answer = self.ask(&conversation, true, &mut listener).await;
            let last = match answer {
                Ok(answer) => chunks.last(answer.finish.reason(), &cost(answer.usage)),
                Err(error) => data(&error_body(
                    &error.message,
                    "api_error",
                    error.code().as_str(),
                )),
            };
            drop(events.send(last));
        }))
    }

    async fn ask(
        &self,
        conversation: &Conversation,
        stream: bool,
        listener: &mut (dyn FnMut(pillion_chat::Delta) + Send),
    ) -> Result<Answer, ModelError> {
        let turn = Turn {
            conversation,
            tools: &self.tools,
            options: &self.options,
            stream,
            deadline: Instant::now() + self.timeout,
        };
        self.voice.respond(&turn, listener).await
    }

    /// The model's message, with its calls.
    fn message(&self, answer: &Answer) -> Result<Value, ModelError> {
        let provider = self.voice.provider();
        let malformed = |error: pillion_core::provider::ProviderError| {
            ModelError::new(ModelErrorKind::Malformed, error.to_string())
        };
        let text = assistant_text(provider, &answer.body).map_err(malformed)?;
        let calls = parse_tool_calls(provider, &answer.body).map_err(malformed)?;
        let content = match text.is_empty() && !calls.is_empty() {
            true => Value::Null,
            false => json!(text),
        };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !calls.is_empty() {
            let calls = calls.iter().map(|call| {
                let arguments = match &call.arguments {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                json!({
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments},
                })
            });
            message["tool_calls"] = calls.collect();
        }
        Ok(message)
    }
}

fn cost(usage: Usage) -> ChatUsage {
    ChatUsage {
        requests: 1,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_tokens,
    }
}
