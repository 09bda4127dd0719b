use pillion_chat::{ChatError, ChatState, ModelErrorKind, TurnOptions};
use pillion_core::store::StoreError;
use serde::{Deserialize, Serialize};

use super::answer;
use super::error::status_of;

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
pub(crate) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
    /// In seconds.
    pub(super) retry_after: Option<f64>,
    /// The HTTP status that says more than the code, where one does.
    #[serde(default)]
    pub(crate) status: Option<u16>,
    /// Whether the same request would fail again, or have something done twice.
    #[serde(default)]
    pub(crate) is_final: bool,
}

impl Failure {
    pub(super) fn of(error: &ChatError) -> Self {
        Self {
            code: error.code().to_string(),
            message: error.to_string(),
            retry_after: answer::retry_after(error),
            status: match error {
                ChatError::Model(error) => Some(status_of(error.kind).as_u16()),
                _ => None,
            },
            is_final: error.may_have_acted() || is_in_vain(error),
        }
    }

    /// That of the store.
    pub(super) fn of_store(error: &StoreError) -> Self {
        Self {
            code: error.code().to_string(),
            message: format!("The chat could not be kept: {error}"),
            retry_after: None,
            status: None,
            is_final: false,
        }
    }
}

/// Whether no repetition helps until somebody does something about it.
fn is_in_vain(error: &ChatError) -> bool {
    match error {
        ChatError::Model(error) => matches!(
            error.kind,
            ModelErrorKind::Unauthorized | ModelErrorKind::Exhausted
        ),
        ChatError::Spent { .. } => true,
        _ => false,
    }
}

impl Kept {
    pub(super) fn to_json(&self) -> String {
        // Nothing in it can fail to be JSON: no map has keys that are no text.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a list shows of it.
    pub(super) fn summary(&self, id: &str) -> String {
        let answer = answer::listed(answer::of(id, self, Vec::new()));
        serde_json::to_string(&answer).unwrap_or_default()
    }

    pub(super) fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
