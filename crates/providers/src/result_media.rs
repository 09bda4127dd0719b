//! Images, audio and files in tool results, in the providers' formats and within limits.

use std::borrow::Cow;

use pillion_core::tool::{Media, ResultPart, ToolResult};
use serde_json::Value;

use crate::ToolFormat;

/// Maximum number of images, audio items and files in one request.
const MAX_ITEMS: usize = 8;

/// Maximum length of one item in Base64, in bytes. Anthropic accepts images of 5 MB.
const MAX_ITEM_BYTES: usize = 5_000_000;

/// Maximum length of all items of one request in Base64, in bytes. Google accepts requests of 20 MB.
const MAX_TOTAL_BYTES: usize = 12_000_000;

/// A part of a result that a provider gets.
pub(crate) enum SentPart<'a> {
    Text(Cow<'a, str>),
    Media(SentMedia<'a>),
}

/// An image, audio or a file, in a form that a provider accepts.
pub(crate) struct SentMedia<'a> {
    pub(crate) media: Media<'a>,
    pub(crate) media_type: String,
    pub(crate) base64: Cow<'a, str>,
}

impl SentMedia<'_> {
    pub(crate) fn is_image(&self) -> bool {
        self.media_type.starts_with("image/")
    }

    pub(crate) fn data_url(&self) -> String {
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
            items: MAX_ITEMS,
            bytes: MAX_TOTAL_BYTES,
        }
    }

    /// Returns whether an item of this size fits, and if so, subtracts the item from the budget.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = self.items > 0 && bytes <= self.bytes.min(MAX_ITEM_BYTES);
        if fits {
            self.items -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}

/// Returns the parts of each result of which the provider gets more than text, within the limits:
/// earlier items take precedence. `None` for a result of which the provider gets only text.
pub(crate) fn parts_of_results<'a>(
    format: &impl ToolFormat,
    results: &'a [ToolResult],
) -> Vec<Option<Vec<SentPart<'a>>>> {
    let mut budget = MediaBudget::new();
    let results = results.iter();
    results
        .map(|result| parts_of_result(format, result, &mut budget))
        .collect()
}

fn parts_of_result<'a>(
    format: &impl ToolFormat,
    result: &'a ToolResult,
    budget: &mut MediaBudget,
) -> Option<Vec<SentPart<'a>>> {
    let mut parts = Vec::new();
    for part in result.parts()? {
        let part = match part {
            ResultPart::Text(text) => SentPart::Text(text),
            ResultPart::Media(media) => match accepted(format, media) {
                Some(sent) if budget.take(sent.base64.len()) => SentPart::Media(sent),
                _ => SentPart::Text(media.marker().into()),
            },
        };
        match (parts.last_mut(), part) {
            (Some(SentPart::Text(known)), SentPart::Text(text)) => {
                let known = known.to_mut();
                known.push('\n');
                known.push_str(&text);
            }
            (_, part) => parts.push(part),
        }
    }
    let is_text = |part: &SentPart<'_>| matches!(part, SentPart::Text(_));
    if parts.iter().all(is_text) {
        return None;
    }
    parts.extend(result.note().map(|note| SentPart::Text(note.into())));
    // Providers reject empty text.
    parts.retain(|part| !matches!(part, SentPart::Text(text) if text.trim().is_empty()));
    Some(parts)
}

/// Returns the content of a result for a provider that accepts a list of parts: the result's text,
/// or its [parts](parts_of_results).
pub(crate) fn content_of<'a>(
    format: &impl ToolFormat,
    result: &ToolResult,
    parts: Option<Vec<SentPart<'a>>>,
    format_media: impl Fn(&SentMedia<'a>) -> Value,
) -> Value {
    let Some(parts) = parts else {
        return result.content().into();
    };
    let parts = parts.iter().map(|part| match part {
        SentPart::Text(text) => format.text_part(text),
        SentPart::Media(media) => format_media(media),
    });
    parts.collect()
}

/// Returns the item in a form that the provider accepts; `None` if the provider rejects requests
/// with items of this media type.
fn accepted<'a>(format: &impl ToolFormat, media: Media<'a>) -> Option<SentMedia<'a>> {
    let media_type = media.media_type();
    let base64 = media
        .base64()
        .filter(|_| format.accepts_media(&media_type))?;
    Some(SentMedia {
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
pub(crate) fn pointers(
    list: &Value,
    at: &str,
    is_match: impl Fn(Option<&Value>, &Value) -> bool,
) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let matching = items.iter().enumerate().filter(|(index, item)| {
        let before = index.checked_sub(1).and_then(|index| items.get(index));
        is_match(before, item)
    });
    matching.map(|(index, _)| format!("{at}/{index}")).collect()
}

/// Returns the images, audio and files of tool results that exceed the limits of one request,
/// oldest first: a request has only the newest items, at most 8 with at most 12 MB of Base64. Each
/// returned item is the index of its message and a JSON pointer within the message.
#[must_use]
pub fn excess_result_media(
    format: &(impl ToolFormat + ?Sized),
    messages: &[Value],
) -> Vec<(usize, String)> {
    let mut budget = MediaBudget::new();
    let mut excess = Vec::new();
    let mut is_full = false;
    for (index, message) in messages.iter().enumerate().rev() {
        for pointer in format.media_pointers(message).into_iter().rev() {
            let bytes = message.pointer(&pointer).map_or(0, data_len);
            // No older item is sent either, so that the model does not see an old item without a
            // newer one.
            is_full = is_full || !budget.take(bytes);
            if is_full {
                excess.push((index, pointer));
            }
        }
    }
    excess.reverse();
    excess
}

/// Returns the length of the longest text in an item.
fn data_len(item: &Value) -> usize {
    match item {
        Value::String(text) => text.len(),
        Value::Object(members) => members.values().map(data_len).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
