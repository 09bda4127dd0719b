use pillion_providers::{Provider, excess_result_media};
use serde_json::Value;

use super::size;

/// The text that replaces an omitted tool result.
const OMITTED_RESULT_TEXT: &str = "[This result was left out to keep the conversation short]";

/// The text that replaces an image, audio or a file of an older result, because a request contains
/// only the newest images, audio and files.
const OMITTED_MEDIA_TEXT: &str = "[This item of an older result was left out]";

/// Returns the messages without the oldest images, audio and files of tool results, if the messages
/// contain more of these than a request may contain; `None` if nothing must be removed.
pub(crate) fn without_old_media(provider: Provider, messages: &[Value]) -> Option<Vec<Value>> {
    let excess_media = excess_result_media(provider.api(), messages);
    if excess_media.is_empty() {
        return None;
    }
    let mut messages = messages.to_vec();
    for (index, pointer) in excess_media {
        if let Some(item) = messages[index].pointer_mut(&pointer) {
            *item = provider.api().text_part(OMITTED_MEDIA_TEXT);
        }
    }
    Some(messages)
}

/// Returns the index of the first message of the tool results at the end of the conversation, or
/// the number of messages if the conversation does not end with tool results.
pub(crate) fn last_round_start(provider: Provider, messages: &[Value]) -> usize {
    let is_result = |message: &&Value| !provider.api().result_pointers(message).is_empty();
    messages.len() - messages.iter().rev().take_while(is_result).count()
}

/// Omits tool results, oldest first, until at least `min_bytes` bytes are saved or all results are
/// omitted. Returns the number of bytes saved.
pub(crate) fn trim(provider: Provider, messages: &mut [Value], min_bytes: u64) -> u64 {
    let api = provider.api();
    let mut saved_bytes = 0;
    for message in messages {
        let result_pointers = api.result_pointers(message);
        let is_in_result = |pointer: &String| {
            result_pointers
                .iter()
                .any(|result| pointer.starts_with(result.as_str()))
        };
        let mut media_pointers = api.media_pointers(message);
        media_pointers.retain(|pointer| !is_in_result(pointer));
        let result_notes = result_pointers
            .into_iter()
            .map(|pointer| (pointer, api.text_result(OMITTED_RESULT_TEXT)));
        let media_notes = media_pointers
            .into_iter()
            .map(|pointer| (pointer, api.text_part(OMITTED_RESULT_TEXT)));
        for (pointer, note) in result_notes.chain(media_notes) {
            if saved_bytes >= min_bytes {
                return saved_bytes;
            }
            let Some(item) = message.pointer_mut(&pointer) else {
                continue;
            };
            let (old_size, new_size) = (
                size::measure_part(&pointer, item),
                size::measure_text_value(&note),
            );
            if old_size > new_size {
                *item = note;
                saved_bytes += old_size - new_size;
            }
        }
    }
    saved_bytes
}
