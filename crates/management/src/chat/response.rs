//! Converts the state of a chat to the REST API's format.

use pillion_chat::{ChatState, EndedCall, WaitingCall};
use pillion_wire::{ChatApproval, ChatResponse, ChatToolCall, ChatUsage};
use serde_json::Value;

use super::stored_chat::StoredChat;

/// The status of a chat that a request is running.
pub(super) const RUNNING_STATUS: &str = "running";

/// The status of a chat whose calls wait for approval, even while a request runs the chat.
pub(super) const AWAITING_APPROVAL_STATUS: &str = "awaiting_approval";

/// Maximum size of a chat's final response, and of the arguments of each call that waits for
/// approval, in a list of chats, in bytes.
const MAX_LISTED_TEXT_BYTES: usize = 4096;

/// Returns the chat's state; `tool_calls` are the calls of the current request.
pub(super) fn from_stored(
    id: &str,
    stored_chat: &StoredChat,
    tool_calls: Vec<ChatToolCall>,
) -> ChatResponse {
    let state = &stored_chat.state;
    let waiting_calls = state.waiting_calls();
    let failure = stored_chat.failure.as_ref();
    let final_response = state.final_response().filter(|_| failure.is_none());
    let status = if failure.is_some() {
        "failed"
    } else if final_response.is_some() {
        "answered"
    } else if !waiting_calls.is_empty() {
        AWAITING_APPROVAL_STATUS
    } else {
        // No outcome is stored. Unless a request runs the chat now, the last request was aborted,
        // and the next request continues the chat.
        "interrupted"
    };
    ChatResponse {
        success: final_response.is_some(),
        id: id.to_owned(),
        model: stored_chat.model.clone(),
        status: status.to_owned(),
        content: final_response.map(|message| message.text.clone()),
        finish_reason: final_response.map(|message| message.finish.reason().to_owned()),
        limit_reached: final_response
            .and_then(|message| message.limit_reached)
            .map(|limit| limit.name().to_owned()),
        tool_calls,
        approvals: waiting_calls.iter().map(convert_approval).collect(),
        usage: convert_usage(state),
        error: failure.map(|failure| failure.message.clone()),
        error_code: failure.map(|failure| failure.code.clone()),
        retry_after: failure.and_then(|failure| failure.retry_after),
    }
}

/// Shortens a chat for a list: truncates the model's final response, and removes long arguments.
pub(super) fn shorten(mut response: ChatResponse) -> ChatResponse {
    if let Some(content) = &mut response.content {
        let mut end = content.len().min(MAX_LISTED_TEXT_BYTES);
        while !content.is_char_boundary(end) {
            end -= 1;
        }
        content.truncate(end);
    }
    for approval in &mut response.approvals {
        if approval.arguments.to_string().len() > MAX_LISTED_TEXT_BYTES {
            approval.arguments = Value::Null;
        }
    }
    response
}

/// Returns the token usage of a chat so far.
pub(super) fn convert_usage(state: &ChatState) -> ChatUsage {
    let usage = state.usage();
    ChatUsage {
        requests: state.requests() as u64,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_tokens,
    }
}

/// Changes the status to running, unless the chat waits for approvals.
pub(super) fn with_running_status(mut response: ChatResponse) -> ChatResponse {
    if response.status != AWAITING_APPROVAL_STATUS {
        RUNNING_STATUS.clone_into(&mut response.status);
        response.success = false;
        (response.error, response.error_code, response.retry_after) = (None, None, None);
    }
    response
}

/// Converts a finished call to the REST API's format.
pub(super) fn convert_call(ended_call: &EndedCall) -> ChatToolCall {
    let EndedCall { result, .. } = ended_call;
    ChatToolCall {
        id: result.tool_call_id.clone(),
        name: result.tool_name.clone(),
        arguments: ended_call.arguments(),
        success: result.success,
        content: result.content(),
        error_code: result.error_code.map(|code| code.to_string()),
    }
}

/// Converts a call that waits for approval to the REST API's format.
fn convert_approval(waiting_call: &WaitingCall) -> ChatApproval {
    ChatApproval {
        id: waiting_call.approval_id.clone(),
        call: waiting_call.call.id.clone(),
        tool: waiting_call.call.name.clone(),
        arguments: waiting_call.arguments(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(content: &str, arguments: Value) -> ChatResponse {
        let approval = ChatApproval {
            id: None,
            call: "1".to_owned(),
            tool: "wipe".to_owned(),
            arguments,
        };
        ChatResponse {
            content: Some(content.to_owned()),
            approvals: vec![approval],
            ..ChatResponse::default()
        }
    }

    #[test]
    fn h7_a_list_contains_the_start_of_an_answer() {
        let short = response("It is 42.", json!({"a": 1}));
        assert_eq!(shorten(short.clone()), short);
        // Truncation does not split characters.
        let long = shorten(response(
            &"é".repeat(3000).replacen('é', "e", 1),
            json!(["x".repeat(5000)]),
        ));
        let content = long.content.unwrap();
        assert_eq!(content.len(), MAX_LISTED_TEXT_BYTES - 1);
        assert!(content.ends_with('é'));
        assert_eq!(long.approvals[0].arguments, Value::Null);
    }
}
