use pillion_providers::{Provider, excess_result_media};
use serde_json::Value;

use super::size;

/// The text that replaces an omitted result.
const TRIMMED_RESULT: &str = "[This result was left out to keep the conversation short]";

/// The text that replaces an image, audio or a file of an older result: a request has only the
/// newest.
const OLD_MEDIA: &str = "[This item of an older result was left out]";

/// Returns the messages of a request: without the oldest images, audio and files of results, if all
/// of them together exceed the limits of a request.
pub(crate) fn without_old_media(provider: Provider, messages: &[Value]) -> Option<Vec<Value>> {
    let excess = excess_result_media(provider.api(), messages);
    if excess.is_empty() {
        return None;
    }
    let mut messages = messages.to_vec();
    for (index, pointer) in excess {
        if let Some(item) = messages[index].pointer_mut(&pointer) {
            *item = provider.api().text_part(OLD_MEDIA);
        }
    }
    Some(messages)
}

/// Returns the index of the first of the tool results at the end of the conversation; the number of
/// messages if the conversation ends with another message.
pub(crate) fn last_round(provider: Provider, messages: &[Value]) -> usize {
    let is_result = |message: &&Value| !provider.api().result_pointers(message).is_empty();
    messages.len() - messages.iter().rev().take_while(is_result).count()
}

/// Omits tool results, oldest first, until `enough` bytes are saved or all results are omitted.
/// Returns the number of bytes saved.
pub(crate) fn trim(provider: Provider, messages: &mut [Value], enough: u64) -> u64 {
    let api = provider.api();
    let mut saved = 0;
    for message in messages {
        let results = api.result_pointers(message);
        let is_in_result = |media: &String| {
            results
                .iter()
                .any(|result| media.starts_with(result.as_str()))
        };
        let mut media = api.media_pointers(message);
        media.retain(|media| !is_in_result(media));
        let results = results
            .into_iter()
            .map(|pointer| (pointer, api.text_result(TRIMMED_RESULT)));
        let media = media
            .into_iter()
            .map(|pointer| (pointer, api.text_part(TRIMMED_RESULT)));
        for (pointer, note) in results.chain(media) {
            if saved >= enough {
                return saved;
            }
            let Some(result) = message.pointer_mut(&pointer) else {
                continue;
            };
            let (before, after) = (size::bytes_at(&pointer, result), size::text_size(&note));
            if before > after {
                *result = note;
                saved += before - after;
            }
        }
    }
    saved
}
