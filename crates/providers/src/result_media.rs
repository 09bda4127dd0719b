//! Images, audio and files in tool results, in the providers' formats and within limits.

use std::borrow::Cow;

use pillion_core::tool::{Media, ResultPart, ToolResult};
use serde_json::Value;

use crate::ToolFormat;

/// Maximum number of images, audio items and files in one request.
const MAX_MEDIA_ITEMS: usize = 8;

/// Maximum length of one item in Base64, in bytes. Anthropic accepts images of 5 MB.
const MAX_MEDIA_ITEM_BYTES: usize = 5_000_000;

/// Maximum length of all items of one request in Base64, in bytes. Google accepts requests of
/// 20 MB.
const MAX_MEDIA_TOTAL_BYTES: usize = 12_000_000;

/// A part of a tool result in the form in which a provider gets it.
pub(crate) enum ProviderPart<'a> {
    Text(Cow<'a, str>),
    Media(ProviderMedia<'a>),
}

/// An image, audio or a file, in a form that a provider accepts.
pub(crate) struct ProviderMedia<'a> {
    pub(crate) media: Media<'a>,
    pub(crate) media_type: String,
    pub(crate) base64: Cow<'a, str>,
}

impl ProviderMedia<'_> {
    pub(crate) fn is_image(&self) -> bool {
        self.media_type.starts_with("image/")
    }

    pub(crate) fn format_data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}

/// The number and the size of the media that one request can still contain.
struct MediaBudget {
    items: usize,
    bytes: usize,
}

impl MediaBudget {
    fn new() -> Self {
        Self {
            items: MAX_MEDIA_ITEMS,
            bytes: MAX_MEDIA_TOTAL_BYTES,
        }
    }

    /// Returns whether an item of this size fits, and if so, subtracts the item from the budget.
    fn take(&mut self, item_bytes: usize) -> bool {
        let has_room = self.items > 0 && item_bytes <= self.bytes.min(MAX_MEDIA_ITEM_BYTES);
        if has_room {
            self.items -= 1;
            self.bytes -= item_bytes;
        }
        has_room
    }
}

/// Returns an entry for each result: the parts of the result if the provider gets more than text,
/// otherwise `None`. If the images, audio and files exceed the limits, earlier items take
/// precedence.
pub(crate) fn prepare_results<'a>(
    format: &impl ToolFormat,
    results: &'a [ToolResult],
) -> Vec<Option<Vec<ProviderPart<'a>>>> {
    let mut budget = MediaBudget::new();
    results
        .iter()
        .map(|result| prepare_result(format, result, &mut budget))
        .collect()
}

fn prepare_result<'a>(
    format: &impl ToolFormat,
    result: &'a ToolResult,
    budget: &mut MediaBudget,
) -> Option<Vec<ProviderPart<'a>>> {
    let mut parts = Vec::new();
    for part in result.parts()? {
        let provider_part = match part {
            ResultPart::Text(text) => ProviderPart::Text(text),
            ResultPart::Media(media) => match to_provider_media(format, media) {
                Some(item) if budget.take(item.base64.len()) => ProviderPart::Media(item),
                _ => ProviderPart::Text(media.marker().into()),
            },
        };
        match (parts.last_mut(), provider_part) {
            (Some(ProviderPart::Text(previous_text)), ProviderPart::Text(text)) => {
                let previous_text = previous_text.to_mut();
                previous_text.push('\n');
                previous_text.push_str(&text);
            }
            (_, part) => parts.push(part),
        }
    }
    let is_text = |part: &ProviderPart<'_>| matches!(part, ProviderPart::Text(_));
    if parts.iter().all(is_text) {
        return None;
    }
    parts.extend(result.note().map(|note| ProviderPart::Text(note.into())));
    // Removes empty text, which providers reject.
    parts.retain(|part| !matches!(part, ProviderPart::Text(text) if text.trim().is_empty()));
    Some(parts)
}

/// Returns the content of a result for a provider that accepts a list of parts: the result's text,
/// or its [parts](prepare_results).
pub(crate) fn format_result_content<'a>(
    format: &impl ToolFormat,
    result: &ToolResult,
    parts: Option<Vec<ProviderPart<'a>>>,
    format_media: impl Fn(&ProviderMedia<'a>) -> Value,
) -> Value {
    let Some(parts) = parts else {
        return result.content().into();
    };
    let parts = parts.iter().map(|part| match part {
        ProviderPart::Text(text) => format.text_part(text),
        ProviderPart::Media(media) => format_media(media),
    });
    parts.collect()
}

/// Returns the item in a form that the provider accepts; `None` if the provider rejects requests
/// with items of this media type.
fn to_provider_media<'a>(format: &impl ToolFormat, media: Media<'a>) -> Option<ProviderMedia<'a>> {
    let media_type = media.media_type();
    let is_accepted = format.accepts_media(&media_type);
    let base64 = media.base64().filter(|_| is_accepted)?;
    Some(ProviderMedia {
        media,
        media_type,
        base64,
    })
}

/// Returns whether every provider that accepts media accepts this media type.
pub(crate) fn is_common_type(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/webp" | "application/pdf"
    )
}

/// Returns the JSON pointers to the matching items of a list; `is_match` also gets the preceding
/// item.
pub(crate) fn find_pointers(
    list: &Value,
    list_pointer: &str,
    is_match: impl Fn(Option<&Value>, &Value) -> bool,
) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let matching_items = items.iter().enumerate().filter(|(index, item)| {
        let previous_item = index.checked_sub(1).and_then(|index| items.get(index));
        is_match(previous_item, item)
    });
    matching_items
        .map(|(index, _)| format!("{list_pointer}/{index}"))
        .collect()
}

/// Returns the images, audio and files of tool results that a request must omit, oldest first. A
/// request contains only the newest items: at most 8, with at most 12 MB of Base64 together. Each
/// returned item is the index of its message and a JSON pointer within the message.
#[must_use]
pub fn excess_result_media(
    format: &(impl ToolFormat + ?Sized),
    messages: &[Value],
) -> Vec<(usize, String)> {
    let mut budget = MediaBudget::new();
    let mut excess_items = Vec::new();
    let mut is_full = false;
    for (index, message) in messages.iter().enumerate().rev() {
        for pointer in format.media_pointers(message).into_iter().rev() {
            let item_bytes = message.pointer(&pointer).map_or(0, longest_text_bytes);
            // Once an item does not fit, all older items are omitted, too, so that the model does
            // not see an old item without a newer one.
            is_full = is_full || !budget.take(item_bytes);
            if is_full {
                excess_items.push((index, pointer));
            }
        }
    }
    excess_items.reverse();
    excess_items
}

/// Returns the length of the longest text in an item.
fn longest_text_bytes(item: &Value) -> usize {
    match item {
        Value::String(text) => text.len(),
        Value::Object(members) => members.values().map(longest_text_bytes).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
