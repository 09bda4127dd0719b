//! The conversation of a chat in one form for all providers, and the calls that the chat has made.

use pillion_chat::{ChatEvent, ChatState};
use pillion_core::store::CallStatus;
use pillion_core::tool::ToolResult;
use pillion_core::truncated;
use pillion_providers::{TranscriptPart, transcript};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length of a chat's title, in bytes.
const MAX_TITLE_BYTES: usize = 200;

/// A part of the conversation of a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatPart {
    /// The instructions for the model.
    System(String),
    /// Text of the user.
    User(String),
    /// Text of the model.
    Assistant(String),
    /// A call that the model has made.
    Call(ChatCall),
}

/// A call that the model has made in a chat, with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatCall {
    /// The name of the called tool.
    pub name: String,
    /// The arguments: a JSON value, or a string that is not valid JSON.
    pub arguments: Value,
    /// The result, as the model reads it; `None` until all calls of the response have a result.
    pub result: Option<String>,
    /// The status of the call, as in the call log; `None` if unknown, for example because the
    /// client has sent the call as a part of an earlier conversation.
    pub status: Option<String>,
    /// The code of the error, if the call failed.
    pub error_code: Option<String>,
    /// The ID of the call's record in the call log, if known.
    pub record_id: Option<String>,
}

/// A call of a chat, as stored with the chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedCall {
    id: String,
    name: String,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record_id: Option<String>,
}

impl RecordedCall {
    /// Updates the calls of a chat after an event of the chat.
    pub(super) fn record_event(calls: &mut Vec<Self>, event: &ChatEvent) {
        match event {
            ChatEvent::ToolStarted(call) => {
                let recorded_call = Self::find_unfinished(calls, &call.id, &call.name);
                let status = CallStatus::Running.as_str();
                status.clone_into(&mut recorded_call.status);
            }
            ChatEvent::ToolWaiting(waiting_call) => {
                let call = &waiting_call.call;
                Self::find_unfinished(calls, &call.id, &call.name).set_result(&waiting_call.result);
            }
            ChatEvent::ToolFinished(ended_call) => {
                let call = &ended_call.call;
                Self::find_unfinished(calls, &call.id, &call.name).set_result(&ended_call.result);
            }
            _ => {}
        }
    }

    /// Returns the call with this ID that has no result yet. Adds the call if there is none.
    fn find_unfinished<'a>(calls: &'a mut Vec<Self>, id: &str, name: &str) -> &'a mut Self {
        let is_unfinished = |call: &Self| {
            let status = CallStatus::from_name(&call.status);
            call.id == id && status.is_some_and(|status| !status.is_final())
        };
        let position = calls.iter().rposition(is_unfinished);
        let index = position.unwrap_or_else(|| {
            calls.push(Self {
                id: id.to_owned(),
                name: name.to_owned(),
                status: CallStatus::Running.as_str().to_owned(),
                error_code: None,
                record_id: None,
            });
            calls.len() - 1
        });
        &mut calls[index]
    }

    fn set_result(&mut self, result: &ToolResult) {
        let status = CallStatus::from_result(result);
        status.as_str().clone_into(&mut self.status);
        let error_code = result.error_code.filter(|_| status.is_final());
        self.error_code = error_code.map(|code| code.to_string());
        let record_id = result.metadata.get("record_id").and_then(Value::as_str);
        if record_id.is_some() {
            self.record_id = record_id.map(str::to_owned);
        }
    }
}

/// Returns the beginning of the user's first message, as a title of the chat.
pub(super) fn find_title(state: &ChatState) -> Option<String> {
    let messages = state.messages().iter();
    let mut parts = messages.flat_map(|message| transcript(state.provider(), message));
    parts.find_map(|part| match part {
        TranscriptPart::User(text) => Some(truncated(&text, MAX_TITLE_BYTES).to_owned()),
        _ => None,
    })
}

/// Returns the parts of a chat's conversation, with the results of the calls. `is_running` is false
/// if no request runs the chat: calls that have started were then interrupted.
pub(super) fn read(
    state: &ChatState,
    recorded_calls: &[RecordedCall],
    is_running: bool,
) -> Vec<ChatPart> {
    let system = state.system().map(system_text).map(TranscriptPart::System);
    let messages = state.messages().iter();
    let message_parts = messages.flat_map(|message| transcript(state.provider(), message));
    join_results(
        system.into_iter().chain(message_parts),
        recorded_calls,
        is_running,
    )
}

/// Returns the text of a system prompt that is separate from the messages: a string, a list of
/// texts, or Google's object with a list of texts.
fn system_text(system: &Value) -> String {
    let items = match system {
        Value::String(text) => return text.clone(),
        Value::Object(members) => members.get("parts").and_then(Value::as_array),
        other => other.as_array(),
    };
    let texts: Vec<_> = items
        .into_iter()
        .flatten()
        .filter_map(|item| item["text"].as_str())
        .collect();
    texts.join("\n\n")
}

/// Joins the results with their calls, and the calls with their records. A call or a result without
/// an ID belongs to the first candidate, because such calls and results are in the same order.
fn join_results(
    transcript_parts: impl Iterator<Item = TranscriptPart>,
    recorded_calls: &[RecordedCall],
    is_running: bool,
) -> Vec<ChatPart> {
    let mut unused_records: Vec<_> = recorded_calls.iter().collect();
    let mut parts = Vec::new();
    // The IDs and the indexes of the calls without a result.
    let mut open_calls: Vec<(Option<String>, usize)> = Vec::new();
    for transcript_part in transcript_parts {
        match transcript_part {
            TranscriptPart::System(text) => parts.push(ChatPart::System(text)),
            TranscriptPart::User(text) => parts.push(ChatPart::User(text)),
            TranscriptPart::Assistant(text) => parts.push(ChatPart::Assistant(text)),
            TranscriptPart::Call {
                id,
                name,
                arguments,
            } => {
                let position = unused_records.iter().position(|record| match &id {
                    Some(id) => record.id == *id,
                    None => record.name == name,
                });
                let record = position.map(|index| unused_records.remove(index));
                let status = record.map(|record| match record.status.as_str() {
                    "running" if !is_running => CallStatus::Interrupted.as_str(),
                    status => status,
                });
                open_calls.push((id, parts.len()));
                parts.push(ChatPart::Call(ChatCall {
                    name,
                    arguments,
                    result: None,
                    status: status.map(str::to_owned),
                    error_code: record.and_then(|record| record.error_code.clone()),
                    record_id: record.and_then(|record| record.record_id.clone()),
                }));
            }
            TranscriptPart::Result { id, content } => {
                let mut ids = open_calls.iter().map(|(call_id, _)| call_id);
                let Some(position) = ids.position(|call_id| id.is_none() || *call_id == id) else {
                    continue;
                };
                let (_, index) = open_calls.remove(position);
                if let Some(ChatPart::Call(call)) = parts.get_mut(index) {
                    call.result = Some(content);
                }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use pillion_chat::EndedCall;
    use pillion_core::tool::{ErrorCode, ToolCall};
    use serde_json::json;

    use super::*;

    fn call_part(id: Option<&str>, name: &str) -> TranscriptPart {
        TranscriptPart::Call {
            id: id.map(str::to_owned),
            name: name.to_owned(),
            arguments: json!({}),
        }
    }

    fn result_part(id: Option<&str>, content: &str) -> TranscriptPart {
        TranscriptPart::Result {
            id: id.map(str::to_owned),
            content: content.to_owned(),
        }
    }

    fn recorded(events: &[ChatEvent]) -> Vec<RecordedCall> {
        let mut calls = Vec::new();
        for event in events {
            RecordedCall::record_event(&mut calls, event);
        }
        calls
    }

    fn started(id: &str) -> ChatEvent {
        ChatEvent::ToolStarted(ToolCall::new(id, "roll", json!({})))
    }

    fn finished(id: &str, mut result: ToolResult, record_id: &str) -> ChatEvent {
        result
            .metadata
            .insert("record_id".to_owned(), json!(record_id));
        ChatEvent::ToolFinished(EndedCall {
            call: ToolCall::new(id, "roll", json!({})),
            result,
        })
    }

    fn only_calls(parts: Vec<ChatPart>) -> Vec<ChatCall> {
        let calls = parts.into_iter().filter_map(|part| match part {
            ChatPart::Call(call) => Some(call),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn results_and_records_belong_to_their_calls() {
        let records = recorded(&[
            started("1"),
            started("2"),
            finished("2", ToolResult::success("2", "roll", json!(6)), "r2"),
            finished(
                "1",
                ToolResult::failure("1", "roll", ErrorCode::Timeout, "slow"),
                "r1",
            ),
        ]);
        let transcript_parts = [
            TranscriptPart::User("Roll twice".to_owned()),
            call_part(Some("1"), "roll"),
            call_part(Some("2"), "roll"),
            result_part(Some("2"), "6"),
            result_part(Some("1"), "slow"),
            result_part(Some("3"), "of no call"),
            TranscriptPart::Assistant("Done".to_owned()),
        ];
        let parts = join_results(transcript_parts.into_iter(), &records, false);
        assert_eq!(parts.len(), 4);
        let calls = only_calls(parts);
        let shown: Vec<_> = calls
            .iter()
            .map(|call| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                [
                    text(&call.result),
                    text(&call.status),
                    text(&call.error_code),
                    text(&call.record_id),
                ]
            })
            .collect();
        assert_eq!(
            shown,
            [
                ["slow", "error", "timeout", "r1"],
                ["6", "success", "", "r2"]
            ]
        );
    }

    #[test]
    fn calls_without_ids_are_matched_in_order() {
        let records = recorded(&[
            started("pillion_call_0"),
            started("pillion_call_1"),
            finished(
                "pillion_call_1",
                ToolResult::success("pillion_call_1", "roll", json!(2)),
                "r2",
            ),
            finished(
                "pillion_call_0",
                ToolResult::success("pillion_call_0", "roll", json!(1)),
                "r1",
            ),
        ]);
        let transcript_parts = [
            call_part(None, "roll"),
            call_part(None, "roll"),
            result_part(None, "1"),
            result_part(None, "2"),
        ];
        let calls = only_calls(join_results(transcript_parts.into_iter(), &records, false));
        assert_eq!(calls[0].result.as_deref(), Some("1"));
        assert_eq!(calls[0].record_id.as_deref(), Some("r1"));
        assert_eq!(calls[1].result.as_deref(), Some("2"));
        assert_eq!(calls[1].record_id.as_deref(), Some("r2"));
    }

    #[test]
    fn a_call_that_runs_again_after_its_approval_is_one_call() {
        let waiting_result =
            ToolResult::failure("1", "roll", ErrorCode::ApprovalRequired, "needs approval");
        let mut records = recorded(&[started("1")]);
        records[0].set_result(&waiting_result);
        assert_eq!(records[0].status, "pending");
        assert_eq!(records[0].error_code, None);
        RecordedCall::record_event(&mut records, &started("1"));
        let status = |is_running| {
            let parts = [call_part(Some("1"), "roll")];
            let calls = only_calls(join_results(parts.into_iter(), &records, is_running));
            calls[0].status.clone().unwrap_or_default()
        };
        assert_eq!(records.len(), 1);
        assert_eq!(status(true), "running");
        assert_eq!(status(false), "interrupted");
    }

    #[test]
    fn every_form_of_a_system_prompt_has_a_text() {
        let texts = [
            json!("Be brief."),
            json!([{"type": "text", "text": "Be brief."}]),
            json!({"parts": [{"text": "Be brief."}]}),
        ];
        for system in texts {
            assert_eq!(system_text(&system), "Be brief.", "{system}");
        }
        assert_eq!(system_text(&json!(7)), "");
    }
}
