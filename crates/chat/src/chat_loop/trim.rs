use pillion_core::provider::{Provider, excess_result_media, result_media, text_part};
use serde_json::{Value, json};

use super::size;

/// Replaces a result that was left out.
const TRIMMED_RESULT: &str = "[This result was left out to keep the conversation short]";

/// Replaces an image, a recording or a file of an older result, of which a request has only the newest.
const OLD_MEDIA: &str = "[This item of an older result was left out]";

/// Returns the messages of a request: without the oldest images, recordings and files of results, if
/// all of them together exceed the limits of a request.
pub(crate) fn without_old_media(provider: Provider, messages: &[Value]) -> Option<Vec<Value>> {
    let excess = excess_result_media(provider, messages);
    if excess.is_empty() {
        return None;
    }
    let mut messages = messages.to_vec();
    for (index, pointer) in excess {
        if let Some(item) = messages[index].pointer_mut(&pointer) {
            *item = text_part(provider, OLD_MEDIA);
        }
    }
    Some(messages)
}

/// Returns the index of the first of the tool results at the end of the conversation; the number of
/// messages if the conversation ends with another message.
pub(crate) fn last_round(provider: Provider, messages: &[Value]) -> usize {
    let is_result = |message: &&Value| !results(provider, message).is_empty();
    messages.len() - messages.iter().rev().take_while(is_result).count()
}

/// Leaves out tool results, oldest first, until `enough` bytes are saved or no result is left.
/// Returns the number of bytes saved.
pub(crate) fn trim(provider: Provider, messages: &mut [Value], enough: u64) -> u64 {
    let mut saved = 0;
    for message in messages {
        let mut pointers = results(provider, message);
        if provider == Provider::Google {
            // Google's items are beside the results.
            pointers.extend(result_media(provider, message));
        }
        for pointer in pointers {
            if saved >= enough {
                return saved;
            }
            let Some(result) = message.pointer_mut(&pointer) else {
                continue;
            };
            let is_response = pointer.ends_with("/response");
            let note = match provider {
                Provider::Google if is_response => json!({ "result": TRIMMED_RESULT }),
                Provider::Google => text_part(provider, TRIMMED_RESULT),
                _ => json!(TRIMMED_RESULT),
            };
            let before = match provider {
                Provider::Google if is_response => size::text_size(result),
                _ => size::bytes(result),
            };
            let after = size::text_size(&note);
            if before > after {
                *result = note;
                saved += before - after;
            }
        }
    }
    saved
}

/// Returns JSON pointers to the tool results in a message of this provider.
fn results(provider: Provider, message: &Value) -> Vec<String> {
    let is = |value: &Value, key: &str, expected: &str| value[key] == expected;
    match provider {
        Provider::OpenAiChat if is(message, "role", "tool") => vec!["/content".to_owned()],
        Provider::OpenAiResponses if is(message, "type", "function_call_output") => {
            vec!["/output".to_owned()]
        }
        Provider::Anthropic => trim_parts(message, "content", |block| {
            is(block, "type", "tool_result").then_some("content")
        }),
        Provider::Google => trim_parts(message, "parts", |part| {
            part["functionResponse"]
                .is_object()
                .then_some("functionResponse/response")
        }),
        _ => Vec::new(),
    }
}

fn trim_parts(
    message: &Value,
    list: &str,
    result: impl Fn(&Value) -> Option<&'static str>,
) -> Vec<String> {
    let parts = message[list].as_array().into_iter().flatten().enumerate();
    let pointers =
        parts.filter_map(|(index, part)| Some(format!("/{list}/{index}/{}", result(part)?)));
    pointers.collect()
}
