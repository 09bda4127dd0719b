use std::collections::HashMap;

use pillion_core::tool::ToolCall;
use serde_json::{Map, Value, json};

use crate::message::{
    Image, ImageSource, ParsedMessage, Part, RoleMessages, failure_text, read, rejected,
};
use crate::{ModelError, ProviderConversation};

/// Converts messages to Google's format: system messages are separate, and consecutive messages of
/// one role are merged.
pub(super) fn convert(messages: &[Value]) -> Result<ProviderConversation, ModelError> {
    let mut system = Vec::new();
    let mut written = GoogleContents::default();
    for (index, message) in read(messages)?.into_iter().enumerate() {
        match message {
            ParsedMessage::System(text) if text.is_empty() => {}
            ParsedMessage::System(text) => system.push(json!({"text": text})),
            ParsedMessage::User(parts) => {
                written.add_message("user", parts.iter().map(part).collect());
            }
            ParsedMessage::Assistant { parts, calls } => {
                let text_parts = parts.iter().map(part);
                written.add_message("model", text_parts.chain(calls.iter().map(call)).collect());
                written.expect(&calls);
            }
            ParsedMessage::Tool {
                call_id,
                tool_name,
                parts,
            } => written.result(call_id, result(&tool_name, &parts, index)?),
        }
    }
    written.add_results();
    let system = (!system.is_empty()).then(|| json!({"parts": system}));
    ProviderConversation::new(system, written.contents.into_values("parts"))
}

#[derive(Default)]
struct GoogleContents {
    contents: RoleMessages,
    /// The positions of the calls since the last results, by call id.
    call_positions: HashMap<String, usize>,
    /// The number of calls so far, which is the position of the next call.
    calls: usize,
    /// Results that are not in the contents yet, with the positions of their calls. Results may
    /// arrive in any order, but Google matches results without ids to calls by order.
    results: Vec<(usize, Value)>,
}

impl GoogleContents {
    fn add_message(&mut self, role: &'static str, parts: Vec<Value>) {
        self.add_results();
        self.contents.add(role, parts);
    }

    /// Registers calls whose results are expected in the next messages.
    fn expect(&mut self, calls: &[ToolCall]) {
        let before = self.calls;
        self.calls += calls.len();
        // If several calls of a message have the same id, the id refers to the first of these
        // calls.
        for (position, call) in calls.iter().enumerate().rev() {
            self.call_positions
                .insert(call.id.clone(), before + position);
        }
    }

    fn result(&mut self, call_id: &str, part: Value) {
        let position = self.call_positions.get(call_id).copied();
        self.results.push((position.unwrap_or(usize::MAX), part));
    }

    /// Adds the collected results to the contents, in the order of their calls.
    fn add_results(&mut self) {
        let mut results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.call_positions.clear();
        }
        results.sort_by_key(|(position, _)| *position);
        let parts = results.into_iter().map(|(_, part)| part).collect();
        self.contents.add("user", parts);
    }
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) | Part::Refusal(text) => json!({"text": text}),
        Part::Image(image) => image_block(image),
    }
}

fn image_block(image: &Image<'_>) -> Value {
    match &image.source {
        ImageSource::Inline { media_type, data } => {
            json!({"inlineData": {"mimeType": media_type, "data": data}})
        }
        ImageSource::Url => {
            let mut file = Map::new();
            if let Some(media_type) = media_type_of(image.url) {
                file.insert("mimeType".to_owned(), json!(media_type));
            }
            file.insert("fileUri".to_owned(), json!(image.url));
            json!({"fileData": file})
        }
    }
}

/// Returns the media type for the file extension of a URL's path.
fn media_type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, ending) = path.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        "gif" => Some("image/gif"),
        "heic" => Some("image/heic"),
        "heif" => Some("image/heif"),
        _ => None,
    }
}

/// Returns a call without its id, which another provider has generated: the API then matches calls
/// and results by order.
fn call(call: &ToolCall) -> Value {
    json!({"functionCall": {"name": call.name, "args": call.arguments_object()}})
}

fn result(tool_name: &str, parts: &[Part<'_>], index: usize) -> Result<Value, ModelError> {
    let response = match failure_text(parts) {
        Some(error) => json!({"error": error}),
        None => json!({"result": text_of(parts, index)?}),
    };
    Ok(json!({"functionResponse": {"name": tool_name, "response": response}}))
}

fn text_of(parts: &[Part<'_>], index: usize) -> Result<String, ModelError> {
    let mut all = String::new();
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) => all.push_str(text),
            Part::Image(_) => {
                return Err(rejected(format!(
                    "messages[{index}].content has an image, but a tool result must be text"
                )));
            }
        }
    }
    Ok(all)
}
