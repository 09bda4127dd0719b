use super::LlmResponse;
use super::chat_request::ChatRequest;

/// Returns the obedient model's response to a request.
pub(super) fn respond(request: &ChatRequest) -> LlmResponse {
    if !request.results.is_empty() {
        return LlmResponse::text(&format!("The tools say: {}", request.results.join("; ")));
    }
    let mut response = LlmResponse::default();
    for line in request.last_message.lines() {
        if let Some((name, arguments)) = line.trim().split_once(' ')
            && request.tools.iter().any(|tool| tool == name)
            && arguments.trim_start().starts_with('{')
        {
            response = response.and_call(name, arguments.trim());
        }
    }
    if response.calls.is_empty() {
        return LlmResponse::text(&format!("You said: {}", request.last_message));
    }
    // The IDs of calls must be unique within a conversation.
    for (index, call) in response.calls.iter_mut().enumerate() {
        call.id = Some(format!("call_{}_{index}", request.length));
    }
    response
}
