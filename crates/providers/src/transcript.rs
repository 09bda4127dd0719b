//! The parts of a conversation in one form for all providers, for pages that show a conversation.

use serde_json::Value;

/// A part of a message in a conversation. The model's thoughts are not included.
#[derive(Debug, Clone, PartialEq)]
pub enum TranscriptPart {
    /// Instructions for the model.
    System(String),
    /// Text of the user. Images and files are markers such as `[image]`.
    User(String),
    /// Text of the model.
    Assistant(String),
    /// A call that the model has made.
    Call {
        /// The ID of the call; `None` if the provider has sent no ID.
        id: Option<String>,
        /// The name of the called tool.
        name: String,
        /// The arguments: a JSON value, or a string that is not valid JSON.
        arguments: Value,
    },
    /// The result of a call.
    Result {
        /// The ID of the call; `None` if the call has no ID. Results without IDs are in the order
        /// of their calls.
        id: Option<String>,
        /// The result, as the model reads it.
        content: String,
    },
}

/// Returns a text of a message with this role, unless the text is empty.
pub(crate) fn role_text(role: Option<&str>, text: String) -> Option<TranscriptPart> {
    if text.is_empty() {
        return None;
    }
    Some(match role {
        Some("user") => TranscriptPart::User(text),
        Some("system" | "developer") => TranscriptPart::System(text),
        _ => TranscriptPart::Assistant(text),
    })
}

/// Returns a call. Arguments that are valid JSON in a string are parsed.
pub(crate) fn call(id: &Value, name: &Value, arguments: &Value) -> TranscriptPart {
    let parsed_arguments = arguments
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    TranscriptPart::Call {
        id: id.as_str().map(str::to_owned),
        name: name.as_str().unwrap_or_default().to_owned(),
        arguments: parsed_arguments.unwrap_or_else(|| arguments.clone()),
    }
}

/// Returns the result of the call with this ID.
pub(crate) fn result(id: &Value, content: String) -> TranscriptPart {
    TranscriptPart::Result {
        id: id.as_str().map(str::to_owned),
        content,
    }
}

/// Returns the text of a content, which is a string or a list of items. Items without text become
/// markers such as `[image]`.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<_> = items.iter().map(item_text).collect();
            texts.join("\n")
        }
        other => other.to_string(),
    }
}

/// Returns the text of an item of a content, or a marker for an item without text.
pub(crate) fn item_text(item: &Value) -> String {
    let members = ["text", "refusal"];
    let text = members.iter().find_map(|member| item[*member].as_str());
    match text {
        Some(text) => text.to_owned(),
        None => format!("[{}]", item["type"].as_str().unwrap_or("file")),
    }
}

#[cfg(test)]
mod tests {
    use pillion_core::tool::{ErrorCode, ToolResult};
    use serde_json::json;

    use super::*;
    use crate::{Provider, format_results, transcript};

    /// Returns the parts of a conversation that is converted to the provider's format.
    fn parts(provider: Provider) -> Vec<TranscriptPart> {
        let messages = [
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": "What is 6 * 7?"}),
            json!({"role": "assistant", "content": "I calculate.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": "{\"expression\":\"6 * 7\"}"}},
            ]}),
            json!({"role": "tool", "tool_call_id": "call_1", "content": "42"}),
            json!({"role": "assistant", "content": "It is 42."}),
        ];
        let conversation = provider.api().conversation(&messages).unwrap();
        let parts = conversation.messages.iter();
        parts
            .flat_map(|message| transcript(provider, message))
            .collect()
    }

    #[test]
    fn each_provider_has_the_same_transcript() {
        for provider in Provider::ALL {
            let mut parts = parts(provider);
            parts.retain(|part| !matches!(part, TranscriptPart::System(_)));
            // Google's calls from other providers lose their IDs.
            let id = (provider != Provider::Google).then(|| "call_1".to_owned());
            let expected = [
                TranscriptPart::User("What is 6 * 7?".to_owned()),
                TranscriptPart::Assistant("I calculate.".to_owned()),
                TranscriptPart::Call {
                    id: id.clone(),
                    name: "calculator".to_owned(),
                    arguments: json!({"expression": "6 * 7"}),
                },
                TranscriptPart::Result {
                    id,
                    content: "42".to_owned(),
                },
                TranscriptPart::Assistant("It is 42.".to_owned()),
            ];
            assert_eq!(parts, expected, "{provider}");
        }
    }

    #[test]
    fn results_have_the_text_that_the_model_reads() {
        let results = [
            ToolResult::success("call_1", "roll_dice", json!("six")),
            ToolResult::failure("call_2", "wipe", ErrorCode::Denied, "not today"),
        ];
        for provider in Provider::ALL {
            let messages = format_results(provider, &results);
            let parts: Vec<_> = messages
                .iter()
                .flat_map(|message| transcript(provider, message))
                .collect();
            let [
                TranscriptPart::Result { id, content },
                TranscriptPart::Result {
                    content: failure, ..
                },
            ] = parts.as_slice()
            else {
                panic!("{provider}: {parts:?}");
            };
            assert_eq!(id.as_deref(), Some("call_1"), "{provider}");
            assert_eq!(content, "six", "{provider}");
            assert!(failure.contains("not today"), "{provider}: {failure}");
        }
    }

    #[test]
    fn messages_of_any_form_have_a_transcript() {
        let messages = [
            json!(null),
            json!(7),
            json!([]),
            json!({}),
            json!({"role": 7, "content": {"text": 7}}),
            json!({"type": "reasoning", "content": [], "parts": 7}),
            json!({"role": "user", "content": [7, {"type": "image"}], "parts": [7, {}]}),
            json!({"role": "assistant", "tool_calls": [7, {"function": 7}]}),
        ];
        for provider in Provider::ALL {
            for message in &messages {
                drop(transcript(provider, message));
            }
        }
    }

    #[test]
    fn thoughts_are_skipped_and_invalid_arguments_stay() {
        let anthropic = json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Yes."},
        ]});
        let text = TranscriptPart::Assistant("Yes.".to_owned());
        let transcript_of_anthropic = transcript(Provider::Anthropic, &anthropic);
        assert_eq!(transcript_of_anthropic, std::slice::from_ref(&text));
        let google = json!({"role": "model", "parts": [
            {"text": "hm", "thought": true},
            {"text": "Yes."},
        ]});
        assert_eq!(transcript(Provider::Google, &google), [text]);
        let call =
            json!({"type": "function_call", "call_id": "1", "name": "x", "arguments": "{bad"});
        let parts = transcript(Provider::OpenAiResponses, &call);
        assert!(
            matches!(&parts[..], [TranscriptPart::Call { arguments, .. }] if arguments == "{bad"),
            "{parts:?}"
        );
    }
}
