use pillion_providers::{Provider, refusal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Finish, LimitReached};

/// A model's final response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalResponse {
    /// The text of the final response. Text that the model wrote together with earlier tool calls
    /// is in the messages of the chat's state.
    pub text: String,
    /// Why the response ended.
    pub finish: Finish,
    /// The limit after which the model had to respond with text, if a limit was reached.
    pub limit_reached: Option<LimitReached>,
    /// Details about the end of the response.
    #[serde(default, flatten)]
    pub ending: ResponseEnd,
}

/// Details that a provider reports about the end of a response, in addition to [`Finish`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseEnd {
    /// Whether the text is a refusal that the provider marks as such (OpenAI's `refusal`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_refusal: bool,
    /// The entry of [`TurnOptions::stop`](crate::TurnOptions::stop) that ended the response, if the
    /// provider reports it (Anthropic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequence: Option<String>,
}

impl ResponseEnd {
    pub(crate) fn new(provider: Provider, response: &Value) -> Self {
        Self {
            is_refusal: refusal(provider, response)
                .is_ok_and(|refusal_text| !refusal_text.is_empty()),
            stop_sequence: provider.api().stop_sequence(response),
        }
    }
}
