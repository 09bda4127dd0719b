use std::collections::HashMap;

use pillion_core::tool::ToolCall;
use serde_json::{Map, Value, json};

use crate::message::{
    Image, ImageSource, ParsedMessage, Part, RoleMessages, parse_failure_text, parse_messages,
    rejected_error,
};
use crate::{ModelError, ProviderConversation};

/// Converts messages to Google's format, in which system messages are separate, and consecutive
/// messages of one role are merged.
pub(super) fn convert(messages: &[Value]) -> Result<ProviderConversation, ModelError> {
    let mut system_parts = Vec::new();
    let mut contents = GoogleContents::default();
    for (index, message) in parse_messages(messages)?.into_iter().enumerate() {
        match message {
            ParsedMessage::System(text) if text.is_empty() => {}
            ParsedMessage::System(text) => system_parts.push(json!({"text": text})),
            ParsedMessage::User(parts) => {
                contents.add_message("user", parts.iter().map(format_part).collect());
            }
            ParsedMessage::Assistant { parts, calls } => {
                let text_parts = parts.iter().map(format_part);
                let call_parts = calls.iter().map(format_call);
                contents.add_message("model", text_parts.chain(call_parts).collect());
                contents.expect_results(&calls);
            }
            ParsedMessage::Tool {
                call_id,
                tool_name,
                parts,
            } => contents.add_result(call_id, format_result(&tool_name, &parts, index)?),
        }
    }
    contents.add_results();
    let system = (!system_parts.is_empty()).then(|| json!({"parts": system_parts}));
    ProviderConversation::new(system, contents.contents.into_values("parts"))
}

#[derive(Default)]
struct GoogleContents {
    contents: RoleMessages,
    /// The positions of the calls since the last results, by call ID.
    call_positions: HashMap<String, usize>,
    /// The number of calls that were added, which is the position of the next call.
    call_count: usize,
    /// Results that are not in the contents yet, with the positions of their calls. Results may
    /// arrive in any order, but Google matches results without IDs to calls by order.
    results: Vec<(usize, Value)>,
}

impl GoogleContents {
    fn add_message(&mut self, role: &'static str, parts: Vec<Value>) {
        self.add_results();
        self.contents.add(role, parts);
    }

    /// Registers calls whose results are expected in the next messages.
    fn expect_results(&mut self, calls: &[ToolCall]) {
        let first_position = self.call_count;
        self.call_count += calls.len();
        // If several calls of a message have the same ID, the ID refers to the first of these
        // calls.
        for (position, call) in calls.iter().enumerate().rev() {
            self.call_positions
                .insert(call.id.clone(), first_position + position);
        }
    }

    fn add_result(&mut self, call_id: &str, part: Value) {
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

fn format_part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) | Part::Refusal(text) => json!({"text": text}),
        Part::Image(image) => format_image(image),
    }
}

fn format_image(image: &Image<'_>) -> Value {
    match &image.source {
        ImageSource::Inline { media_type, data } => {
            json!({"inlineData": {"mimeType": media_type, "data": data}})
        }
        ImageSource::Url => {
            let mut file_data = Map::new();
            if let Some(media_type) = find_media_type(image.url) {
                file_data.insert("mimeType".to_owned(), json!(media_type));
            }
            file_data.insert("fileUri".to_owned(), json!(image.url));
            json!({"fileData": file_data})
        }
    }
}

/// Returns the media type for the file extension of a URL's path.
fn find_media_type(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, extension) = path.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        "gif" => Some("image/gif"),
        "heic" => Some("image/heic"),
        "heif" => Some("image/heif"),
        _ => None,
    }
}

/// Removes the ID of a call, because another provider has generated the ID. The API then matches
/// calls and results by their order.
fn format_call(call: &ToolCall) -> Value {
    json!({"functionCall": {"name": call.name, "args": call.arguments_object()}})
}

fn format_result(tool_name: &str, parts: &[Part<'_>], index: usize) -> Result<Value, ModelError> {
    let response = match parse_failure_text(parts) {
        Some(error) => json!({"error": error}),
        None => json!({"result": join_text_parts(parts, index)?}),
    };
    Ok(json!({"functionResponse": {"name": tool_name, "response": response}}))
}

fn join_text_parts(parts: &[Part<'_>], index: usize) -> Result<String, ModelError> {
    let mut joined_text = String::new();
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) => joined_text.push_str(text),
            Part::Image(_) => {
                return Err(rejected_error(format!(
                    "messages[{index}].content has an image, but a tool result must be text"
                )));
            }
        }
    }
    Ok(joined_text)
}
