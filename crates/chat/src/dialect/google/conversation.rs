use std::collections::HashMap;

use pillion_core::tool::ToolCall;
use serde_json::{Map, Value, json};

use crate::dialect::message::{Image, ImageSource, Message, Part, failure_text, read};
use crate::{Conversation, ModelError, ModelErrorKind};

/// Writes messages as Google's contents: the system's beside them, and those of one role that
/// follow each other as one.
pub(super) fn of(messages: &[Value]) -> Result<Conversation, ModelError> {
    let mut system = Vec::new();
    let mut written = Written::default();
    for (index, message) in read(messages)?.into_iter().enumerate() {
        match message {
            Message::System(text) if text.is_empty() => {}
            Message::System(text) => system.push(json!({"text": text})),
            Message::User(parts) => written.say("user", parts.iter().map(part).collect()),
            Message::Assistant { parts, calls } => {
                let words = parts.iter().map(part);
                written.say("model", words.chain(calls.iter().map(call)).collect());
                written.expect(&calls);
            }
            Message::Tool {
                call_id,
                tool_name,
                parts,
            } => written.result(call_id, result(&tool_name, &parts, index)?),
        }
    }
    let contents = written.whole();
    if contents.is_empty() {
        return Err(ModelError::new(
            ModelErrorKind::Refused,
            "messages has nothing that a user or a model said",
        ));
    }
    Ok(Conversation {
        system: (!system.is_empty()).then(|| json!({"parts": system})),
        messages: contents
            .into_iter()
            .map(|(role, parts)| json!({"role": role, "parts": parts}))
            .collect(),
    })
}

#[derive(Default)]
struct Written {
    contents: Vec<(&'static str, Vec<Value>)>,
    /// The places of the calls since the last results, by their ids.
    places: HashMap<String, usize>,
    /// How many calls there were so far.
    calls: usize,
    /// Results that are not among the contents yet, with the places of their calls: without ids it is
    /// the order that says what belongs together, and they may come in any.
    results: Vec<(usize, Value)>,
}

impl Written {
    fn say(&mut self, role: &'static str, parts: Vec<Value>) {
        self.settle();
        self.add(role, parts);
    }

    /// Results of these calls come next.
    fn expect(&mut self, calls: &[ToolCall]) {
        let before = self.calls;
        self.calls += calls.len();
        // Of calls of one id the first of this message counts.
        for (place, call) in calls.iter().enumerate().rev() {
            self.places.insert(call.id.clone(), before + place);
        }
    }

    fn result(&mut self, call_id: &str, part: Value) {
        let place = self.places.get(call_id).copied();
        self.results.push((place.unwrap_or(usize::MAX), part));
    }

    fn whole(mut self) -> Vec<(&'static str, Vec<Value>)> {
        self.settle();
        self.contents
    }

    /// Puts the results that have come where they belong.
    fn settle(&mut self) {
        let mut results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.places.clear();
        }
        results.sort_by_key(|(place, _)| *place);
        self.add("user", results.into_iter().map(|(_, part)| part).collect());
    }

    fn add(&mut self, role: &'static str, parts: Vec<Value>) {
        match self.contents.last_mut() {
            _ if parts.is_empty() => {}
            Some((last, there)) if *last == role => there.extend(parts),
            _ => self.contents.push((role, parts)),
        }
    }
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({"text": text}),
        Part::Refusal(text) => json!({"text": text}),
        Part::Image(image) => picture(image),
    }
}

fn picture(image: &Image<'_>) -> Value {
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

/// What the ending of a URL's path says of the kind of image.
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

/// Without the id, which is another provider's: calls and results belong together by their order
/// then, as the API has it.
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
            Part::Text(text) => all.push_str(text),
            Part::Refusal(text) => all.push_str(text),
            Part::Image(_) => {
                return Err(ModelError::new(
                    ModelErrorKind::Refused,
                    format!("messages[{index}].content has an image, and a result is text"),
                ));
            }
        }
    }
    Ok(all)
}
