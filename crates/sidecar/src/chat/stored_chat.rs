use pillion_chat::{ChatError, ChatState, ModelErrorKind, TurnOptions};
use pillion_core::store::StoreError;
use serde::{Deserialize, Serialize};

use super::error::map_status;
use super::response;

/// A chat as stored in the column `json` of its record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredChat {
    /// The ID of the chat's model.
    pub(super) model: String,
    #[serde(rename = "tools")]
    pub(super) may_use_tools: bool,
    pub(super) channel: Option<String>,
    pub(super) options: TurnOptions,
    #[serde(rename = "stays")]
    pub(super) retention: ChatRetention,
    pub(super) state: ChatState,
    /// The reason why the last request failed, if it did.
    pub(super) failure: Option<ChatFailure>,
}

/// The time for which a chat is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChatRetention {
    /// Store the chat until it expires, because the user may continue.
    Always,
    /// Store the chat until the model gives its final response, because the client stores the
    /// conversation.
    UntilAnswered,
}

/// The reason why a chat failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatFailure {
    pub(super) code: String,
    pub(super) message: String,
    /// Time until a retry, in seconds.
    pub(super) retry_after: Option<f64>,
    /// An HTTP status that is more specific than the status of the error code, if any.
    pub(crate) status: Option<u16>,
    /// Whether repeating the request would fail again, or repeat actions that were already done.
    #[serde(default)]
    pub(crate) is_final: bool,
}

impl ChatFailure {
    pub(super) fn from_chat_error(error: &ChatError) -> Self {
        let model_error = match error {
            ChatError::Model(error) => Some(error),
            _ => None,
        };
        let retry_after = model_error.and_then(|error| error.retry_after);
        Self {
            code: error.code().to_string(),
            message: error.to_string(),
            retry_after: retry_after.map(|delay| delay.as_secs_f64()),
            status: model_error.map(|error| map_status(error.kind).as_u16()),
            is_final: error.may_have_acted() || needs_operator(error),
        }
    }

    pub(super) fn from_store(error: &StoreError) -> Self {
        Self {
            code: error.code().to_string(),
            message: format!("The chat could not be stored: {error}"),
            retry_after: None,
            status: None,
            is_final: false,
        }
    }
}

/// Returns whether each retry of the failed request fails until an operator intervenes.
fn needs_operator(error: &ChatError) -> bool {
    match error {
        ChatError::Model(error) => matches!(
            error.kind,
            ModelErrorKind::Unauthorized | ModelErrorKind::Exhausted
        ),
        ChatError::TokenLimit { .. } => true,
        _ => false,
    }
}

impl StoredChat {
    pub(super) fn to_json(&self) -> String {
        // Serialization never fails, because all keys of maps are strings.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the summary that represents the chat in lists, as JSON.
    pub(super) fn summarize(&self, id: &str) -> String {
        let summary = response::shorten(response::from_stored(id, self, Vec::new()));
        serde_json::to_string(&summary).unwrap_or_default()
    }
}
