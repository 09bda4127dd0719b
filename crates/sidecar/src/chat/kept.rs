use pillion_chat::{ChatState, TurnOptions};
use serde::{Deserialize, Serialize};

/// What is kept of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The model's name.
    pub(super) model: String,
    /// Whether it may use tools.
    pub(super) tools: bool,
    pub(super) channel: Option<String>,
    pub(super) options: Options,
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

/// How the model is to answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Options {
    temperature: Option<f64>,
    top_p: Option<f64>,
    max_output_tokens: Option<u64>,
    stop: Vec<String>,
    extra: serde_json::Map<String, serde_json::Value>,
}

/// Why a chat failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
    /// In seconds.
    pub(super) retry_after: Option<f64>,
}

impl Kept {
    pub(super) fn to_json(&self) -> String {
        // Nothing in it can fail to be JSON: no map has keys that are no text.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

impl From<&TurnOptions> for Options {
    fn from(options: &TurnOptions) -> Self {
        Self {
            temperature: options.temperature,
            top_p: options.top_p,
            max_output_tokens: options.max_output_tokens,
            stop: options.stop.clone(),
            extra: options.extra.clone(),
        }
    }
}

impl From<&Options> for TurnOptions {
    fn from(options: &Options) -> Self {
        Self {
            temperature: options.temperature,
            top_p: options.top_p,
            max_output_tokens: options.max_output_tokens,
            stop: options.stop.clone(),
            extra: options.extra.clone(),
        }
    }
}
