use super::LlmAnswer;
use super::chat_request::ChatRequest;

/// Returns the obedient model's answer to a request.
pub(super) fn answer(request: &ChatRequest) -> LlmAnswer {
    if !request.results.is_empty() {
        return LlmAnswer::text(&format!("The tools say: {}", request.results.join("; ")));
    }
    let mut answer = LlmAnswer::default();
    for line in request.last_message.lines() {
        if let Some((name, arguments)) = line.trim().split_once(' ')
            && request.tools.iter().any(|tool| tool == name)
            && arguments.trim_start().starts_with('{')
        {
            answer = answer.and_call(name, arguments.trim());
        }
    }
    if answer.calls.is_empty() {
        return LlmAnswer::text(&format!("You said: {}", request.last_message));
    }
    // Ids must be unique within a conversation.
    for (index, call) in answer.calls.iter_mut().enumerate() {
        call.id = Some(format!("call_{}_{index}", request.length));
    }
    answer
}
