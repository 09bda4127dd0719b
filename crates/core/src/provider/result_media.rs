//! Images, recordings and files in tool results, in the providers' formats and within limits.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Provider;
use crate::tool::{Media, ResultPart, ToolResult};

/// Maximum number of images, recordings and files in one request.
const MAX_ITEMS: usize = 8;

/// Maximum length of one item in Base64, in bytes. Anthropic accepts images of 5 MB.
const MAX_ITEM_BYTES: usize = 5_000_000;

/// Maximum length of all items of one request in Base64, in bytes. Google accepts requests of 20 MB.
const MAX_TOTAL_BYTES: usize = 12_000_000;

/// The beginning of the text before an item in Google's format, where items are beside the results.
const GOOGLE_LABEL: &str = "[Result of ";

/// A part of a result that a provider gets.
pub(super) enum SentPart<'a> {
    Text(Cow<'a, str>),
    Media(SentMedia<'a>),
}

/// An item that a provider accepts.
pub(super) struct SentMedia<'a> {
    media: Media<'a>,
    media_type: String,
    base64: Cow<'a, str>,
}

impl SentMedia<'_> {
    fn is_image(&self) -> bool {
        self.media_type.starts_with("image/")
    }

    fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }

    /// Returns the content block of Anthropic's API.
    pub(super) fn to_anthropic(&self) -> Value {
        let kind = if self.is_image() { "image" } else { "document" };
        let source = json!({"type": "base64", "media_type": self.media_type, "data": self.base64});
        json!({"type": kind, "source": source})
    }

    /// Returns the content part of OpenAI's Responses API.
    pub(super) fn to_openai_responses(&self) -> Value {
        match self.is_image() {
            true => json!({"type": "input_image", "image_url": self.data_url()}),
            false => json!({
                "type": "input_file",
                "filename": "result.pdf",
                "file_data": self.data_url(),
            }),
        }
    }

    /// Returns the parts of Google's API, which follow the results.
    pub(super) fn to_google(&self, result: &ToolResult) -> [Value; 2] {
        let marker = self.media.marker();
        let label = format!("{GOOGLE_LABEL}{}: {marker}]", result.tool_name);
        let data = json!({"mimeType": self.media_type, "data": self.base64});
        [json!({"text": label}), json!({"inlineData": data})]
    }
}

/// The items that one request may still get.
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

    /// Returns whether an item fits, and takes its share.
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
/// the first items go first. `None` for a result of which the provider gets only text.
pub(super) fn parts_of_results(
    provider: Provider,
    results: &[ToolResult],
) -> Vec<Option<Vec<SentPart<'_>>>> {
    let mut budget = MediaBudget::new();
    let results = results.iter();
    results
        .map(|result| parts_of_result(provider, result, &mut budget))
        .collect()
}

fn parts_of_result<'a>(
    provider: Provider,
    result: &'a ToolResult,
    budget: &mut MediaBudget,
) -> Option<Vec<SentPart<'a>>> {
    if !accepts_any(provider) {
        return None;
    }
    let mut parts = Vec::new();
    for part in result.parts()? {
        let part = match part {
            ResultPart::Text(text) => SentPart::Text(text),
            ResultPart::Media(media) => match accepted(provider, media) {
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
pub(super) fn content_of<'a>(
    provider: Provider,
    result: &ToolResult,
    parts: Option<Vec<SentPart<'a>>>,
    format_media: impl Fn(&SentMedia<'a>) -> Value,
) -> Value {
    let Some(parts) = parts else {
        return json!(result.content());
    };
    let parts = parts.iter().map(|part| match part {
        SentPart::Text(text) => text_part(provider, text),
        SentPart::Media(media) => format_media(media),
    });
    parts.collect()
}

fn accepts_any(provider: Provider) -> bool {
    // A tool message of OpenAI's Chat Completions has only text, and many compatible servers and
    // models reject images anywhere.
    provider != Provider::OpenAiChat
}

/// Returns the item in a form that the provider accepts; `None` if the provider rejects requests
/// with such an item.
fn accepted(provider: Provider, media: Media<'_>) -> Option<SentMedia<'_>> {
    let media_type = media.media_type();
    let is_accepted = match (provider, media_type.as_str()) {
        (Provider::OpenAiChat, _) => false,
        (_, "image/png" | "image/jpeg" | "image/webp" | "application/pdf") => true,
        (Provider::Anthropic | Provider::OpenAiResponses, "image/gif") => true,
        (Provider::Google, "image/heic" | "image/heif") => true,
        (
            Provider::Google,
            "audio/wav" | "audio/mp3" | "audio/mpeg" | "audio/aiff" | "audio/aac" | "audio/ogg"
            | "audio/flac",
        ) => true,
        _ => false,
    };
    let base64 = media.base64().filter(|_| is_accepted)?;
    Some(SentMedia {
        media,
        media_type,
        base64,
    })
}

/// Returns JSON pointers to the images, recordings and files of tool results in a message of this
/// provider's conversation, as [`format_results`](super::format_results) writes them.
#[must_use]
pub fn result_media(provider: Provider, message: &Value) -> Vec<String> {
    match provider {
        Provider::OpenAiResponses if message["type"] == "function_call_output" => {
            pointers(&message["output"], "/output", |_, part| {
                matches!(part["type"].as_str(), Some("input_image" | "input_file"))
            })
        }
        Provider::Anthropic => {
            let blocks = message["content"].as_array().into_iter().flatten();
            let results = blocks
                .enumerate()
                .filter(|(_, block)| block["type"] == "tool_result");
            let found = results.flat_map(|(index, block)| {
                let at = format!("/content/{index}/content");
                pointers(&block["content"], &at, |_, part| {
                    part["source"]["type"] == "base64"
                })
            });
            found.collect()
        }
        Provider::Google => pointers(&message["parts"], "/parts", |before, part| {
            let label = before.and_then(|before| before["text"].as_str());
            part["inlineData"].is_object()
                && label.is_some_and(|label| label.starts_with(GOOGLE_LABEL))
        }),
        _ => Vec::new(),
    }
}

/// Returns the pointers to the items of a list that match; `is_match` gets the item before as well.
fn pointers(
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

/// Returns the part of a conversation that stands for an item that is left out.
#[must_use]
pub fn text_part(provider: Provider, text: &str) -> Value {
    match provider {
        Provider::Google => json!({"text": text}),
        Provider::OpenAiResponses => json!({"type": "input_text", "text": text}),
        _ => json!({"type": "text", "text": text}),
    }
}

/// Returns the images, recordings and files of tool results that exceed the limits of one request,
/// oldest first: at most 8 items, the newest, with at most 12 MB of Base64. Each is the index of its
/// message and a JSON pointer within the message.
#[must_use]
pub fn excess_result_media(provider: Provider, messages: &[Value]) -> Vec<(usize, String)> {
    let mut budget = MediaBudget::new();
    let mut excess = Vec::new();
    let mut is_full = false;
    for (index, message) in messages.iter().enumerate().rev() {
        for pointer in result_media(provider, message).into_iter().rev() {
            let bytes = message.pointer(&pointer).map_or(0, data_len);
            // No older item either, so that the model does not see an old one without a newer one.
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
