use super::LlmAnswer;
use super::heard::Heard;

/// Returns the obedient model's answer to a request.
pub(super) fn answer(heard: &Heard) -> LlmAnswer {
    if !heard.results.is_empty() {
        return LlmAnswer::text(&format!("The tools say: {}", heard.results.join("; ")));
    }
    let mut answer = LlmAnswer::default();
    for line in heard.said.lines() {
        if let Some((name, arguments)) = line.trim().split_once(' ')
            && heard.tools.iter().any(|tool| tool == name)
            && arguments.trim_start().starts_with('{')
        {
            answer = answer.and_call(name, arguments.trim());
        }
    }
    if answer.calls.is_empty() {
        return LlmAnswer::text(&format!("You said: {}", heard.said));
    }
    // Ids must be unique within a conversation.
    for (place, call) in answer.calls.iter_mut().enumerate() {
        call.id = Some(format!("call_{}_{place}", heard.length));
    }
    answer
}
