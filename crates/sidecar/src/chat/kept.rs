use pillion_chat::{ChatError, ChatState, TurnOptions};
use serde::{Deserialize, Serialize};

use super::answer;

/// What is kept of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The model's name.
    pub(super) model: String,
    /// Whether it may use tools.
    pub(super) tools: bool,
    pub(super) channel: Option<String>,
    pub(super) options: TurnOptions,
    pub(super) stays: Stays,
    pub(super) state: ChatState,
    /// Why it stopped last, if it failed.
    pub(super) failure: Option<Failure>,
}

/// How long a chat is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stays {
    /// Until it is too old: somebody may say more.
    Always,
    /// Until it is answered: the client has the conversation.
    UntilAnswered,
}

/// Why a chat failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
    /// In seconds.
    pub(super) retry_after: Option<f64>,
}

impl Failure {
    pub(super) fn of(error: &ChatError) -> Self {
        Self {
            code: error.code().to_string(),
            message: error.to_string(),
            retry_after: answer::retry_after(error),
        }
    }
}

impl Kept {
    pub(super) fn to_json(&self) -> String {
        // Nothing in it can fail to be JSON: no map has keys that are no text.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a list shows of it.
    pub(super) fn summary(&self, id: &str) -> String {
        serde_json::to_string(&answer::of(id, self, Vec::new())).unwrap_or_default()
    }

    pub(super) fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
