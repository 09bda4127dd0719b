use pillion_chat::{ChatError, ChatState, ModelErrorKind, TurnOptions};
use pillion_core::store::{StoreError, Timestamp};
use pillion_gateway::timestamp::format_timestamp;
use pillion_wire::ChatResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conversation::{RecordedCall, find_title};
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
    /// The calls of the chat, in the order in which they started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<RecordedCall>,
}

/// The summary that represents a chat in lists: the state of the chat, and further members.
pub(super) struct ChatSummaryText {
    pub(super) response: ChatResponse,
    pub(super) title: Option<String>,
    pub(super) updated_at: Option<String>,
}

impl ChatSummaryText {
    /// Parses the column `summary` of a chat's record.
    pub(super) fn parse(json: &str) -> serde_json::Result<Self> {
        /// Absent if the chat was stored by a version of Pillion that did not store the members.
        #[derive(Deserialize)]
        struct FurtherMembers {
            title: Option<String>,
            updated_at: Option<String>,
        }
        let FurtherMembers { title, updated_at } = serde_json::from_str(json)?;
        Ok(Self {
            response: serde_json::from_str(json)?,
            title,
            updated_at,
        })
    }

    pub(super) fn to_json(&self) -> String {
        let mut summary = json!(self.response);
        if let Value::Object(members) = &mut summary {
            members.insert("title".to_owned(), json!(self.title));
            members.insert("updated_at".to_owned(), json!(self.updated_at));
        }
        summary.to_string()
    }
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
pub struct ChatFailure {
    pub(super) code: String,
    pub(super) message: String,
    /// Time until a retry, in seconds.
    pub(super) retry_after: Option<f64>,
    /// An HTTP status that is more specific than the status of the error code, if any.
    pub status: Option<u16>,
    /// Whether repeating the request would fail again, or repeat actions that were already done.
    #[serde(default)]
    pub is_final: bool,
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

    /// Returns the summary that represents the chat in lists.
    pub(super) fn summarize(&self, id: &str, updated_at: Timestamp) -> ChatSummaryText {
        ChatSummaryText {
            response: response::shorten(response::from_stored(id, self, Vec::new())),
            title: find_title(&self.state),
            updated_at: Some(format_timestamp(updated_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_contains_the_title_and_older_summaries_are_read() {
        let summary = ChatSummaryText {
            response: ChatResponse {
                id: "1".to_owned(),
                status: "answered".to_owned(),
                ..ChatResponse::default()
            },
            title: Some("What is 6 * 7?".to_owned()),
            updated_at: Some("2026-11-30T08:00:00.000Z".to_owned()),
        };
        let parsed_summary = ChatSummaryText::parse(&summary.to_json()).unwrap();
        assert_eq!(parsed_summary.response, summary.response);
        assert_eq!(parsed_summary.title, summary.title);
        assert_eq!(parsed_summary.updated_at, summary.updated_at);
        let old_json = json!(summary.response).to_string();
        let old_summary = ChatSummaryText::parse(&old_json).unwrap();
        assert_eq!(old_summary.response.id, "1");
        assert_eq!((old_summary.title, old_summary.updated_at), (None, None));
    }
}
