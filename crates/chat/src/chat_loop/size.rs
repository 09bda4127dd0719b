use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Delta;

/// The maximum number of characters that encoded data, such as an image, counts for: the number of
/// tokens of such data hardly depends on its length.
const MAX_ENCODED_CHARS: u64 = 4096;

/// Members whose content is always text: what tools have returned, and the arguments that models
/// have written.
const TEXT_MEMBERS: [&str; 4] = ["response", "args", "input", "arguments"];

/// Members that hold encoded data anywhere in a message: signed and encrypted content of providers,
/// and OpenAI's files.
const ENCODED_MEMBERS: [&str; 5] = [
    "encrypted_content",
    "signature",
    "thoughtSignature",
    "thought_signature",
    "file_data",
];

/// The size of a request and the provider's token count for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MeasuredRequest {
    pub(crate) bytes: u64,
    pub(crate) tokens: u64,
}

/// Returns the approximate length of a message or a response as JSON, in ASCII characters that take
/// as many tokens. Encoded data is recognized by its position in the providers' formats, never by
/// its content: text without spaces is text.
pub(crate) fn bytes(message: &Value) -> u64 {
    length(message, "", true)
}

/// Returns the length of a value like [`bytes`], as a part of a message at this JSON pointer.
pub(crate) fn bytes_at(pointer: &str, value: &Value) -> u64 {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    length(value, name, !TEXT_MEMBERS.contains(&name))
}

/// Returns the length of a value without encoded data: a tool result, a schema, the system prompt.
pub(crate) fn text_size(value: &Value) -> u64 {
    length(value, "", false)
}

/// Returns the number of characters of a delta, at least 1.
pub(crate) fn delta_size(delta: &Delta) -> u64 {
    match delta {
        Delta::Text(text) | Delta::Thought(text) => text_bytes(text).max(1),
        Delta::ToolCall {
            name, arguments, ..
        } => text_bytes(name.as_deref().unwrap_or_default()) + text_bytes(arguments).max(1),
        Delta::Native(body) => bytes(body),
    }
}

/// Returns the length of the value of the member `key`.
fn length(value: &Value, key: &str, may_be_encoded: bool) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => 2 + text_bytes(text),
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| length(item, key, may_be_encoded) + 1);
            items.sum::<u64>() + 2
        }
        Value::Object(members) => {
            let lengths = members.iter().map(|(name, value)| {
                let may_be_encoded = may_be_encoded && !TEXT_MEMBERS.contains(&name.as_str());
                text_bytes(name)
                    + 4
                    + match value {
                        Value::String(text)
                            if may_be_encoded && is_encoded(members, key, name, text) =>
                        {
                            2 + MAX_ENCODED_CHARS.min(text_bytes(text))
                        }
                        value => length(value, name, may_be_encoded),
                    }
            });
            lengths.sum::<u64>() + 2
        }
    }
}

/// Returns whether the member `name` of an object, which is the value of `key`, is encoded data.
fn is_encoded(members: &Map<String, Value>, key: &str, name: &str, text: &str) -> bool {
    let is_of_type = |kind: &str| members.get("type").is_some_and(|it| it == kind);
    match (key, name) {
        // Images of OpenAI's two APIs, and audio.
        ("image_url", "url") | (_, "image_url") => text.starts_with("data:"),
        ("input_audio", "data") => true,
        // Anthropic's images, documents and redacted thinking.
        ("source", "data") => is_of_type("base64"),
        (_, "data") if is_of_type("redacted_thinking") => true,
        // Google's inline data.
        ("inlineData" | "inline_data", "data") => true,
        (_, name) => ENCODED_MEMBERS.contains(&name),
    }
}

fn text_bytes(text: &str) -> u64 {
    if text.is_ascii() {
        text.len() as u64
    } else {
        text.chars().map(weight).sum()
    }
}

/// Returns how many ASCII characters a character counts for. Four ASCII characters are about one
/// token, and so is one ideograph, kana or Hangul syllable. Letters of other alphabets take half a
/// token; characters beyond the Basic Multilingual Plane, such as emoji, take two or more tokens.
fn weight(character: char) -> u64 {
    match character {
        '\0'..='\u{7f}' => 1,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' => 4,
        '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ffef}' => 4,
        '\u{80}'..='\u{ffff}' => 2,
        _ => 8,
    }
}

/// Returns the approximate number of tokens of a text with this length: by the provider's count for
/// the previous request, or else one token for four characters.
pub(crate) fn tokens(bytes: u64, measured: Option<MeasuredRequest>) -> u64 {
    match measured {
        // A provider's token count is wrong if no tokenizer produces such a ratio.
        Some(MeasuredRequest {
            bytes: known,
            tokens,
        }) if known > 0 => part(bytes, tokens, known).clamp(bytes / 16, bytes),
        _ => bytes.div_ceil(4),
    }
}

/// Returns `whole * share / of`.
pub(crate) fn part(whole: u64, share: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(share) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The token counts of OpenAI's newer and older tokenizers (o200k, cl100k).
    const MEASURED: [(&str, u64, u64); 8] = [
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        (
            "What did the committee decide about the budget for next year?",
            12,
            12,
        ),
        ("今天天气很好，我们去公园散步吧。", 12, 20),
        ("人工智能正在改变我们的生活方式。", 8, 14),
        ("今日はいい天気ですね。散歩に行きましょう。", 14, 24),
        ("안녕하세요, 오늘 날씨가 정말 좋네요.", 11, 24),
        ("Сегодня хорошая погода, пойдём гулять в парк.", 14, 26),
        ("🎲🐉🏰", 6, 9),
    ];

    #[test]
    fn h4_a_token_is_four_letters_or_one_ideograph() {
        for (text, newer, older) in MEASURED {
            let estimated = tokens(bytes(&json!(text)), None);
            // The estimate is not too low for the newer tokenizer, and close to the larger of both
            // counts.
            assert!(estimated >= newer, "{text}: {estimated}");
            assert!(estimated <= 2 * older, "{text}: {estimated}");
            assert!(3 * estimated >= 2 * older, "{text}: {estimated}");
        }
    }

    #[test]
    fn h4_the_estimate_for_encoded_data_is_proportional_to_its_length() {
        let data = "QUJD".repeat(100_000);
        let url = format!("data:image/png;base64,{data}");
        for message in [
            json!({"content": [{"type": "image_url", "image_url": {"url": url}}]}),
            json!({"content": [{"type": "input_image", "image_url": url}]}),
            json!({"content": [{"type": "input_file", "file_data": url}]}),
            json!({"content": [{"type": "image", "source": {"type": "base64", "data": data}}]}),
            json!({"content": [{"type": "tool_result", "content":
                [{"type": "image", "source": {"type": "base64", "data": data}}]}]}),
            json!({"content": [{"type": "thinking", "thinking": "", "signature": data}]}),
            json!({"content": [{"type": "redacted_thinking", "data": data}]}),
            json!({"type": "reasoning", "summary": [], "encrypted_content": data}),
            json!({"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}),
            json!({"parts": [{"text": "", "thoughtSignature": data}]}),
        ] {
            let bytes = bytes(&message);
            assert!((4096..4400).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn h4_text_without_spaces_is_not_taken_for_encoded_data() {
        let text = json!("字".repeat(10_000));
        assert_eq!(tokens(bytes(&text), None), 10_001);
        let text = "a".repeat(100_000);
        for message in [
            json!({"role": "user", "content": text}),
            json!({"role": "tool", "tool_call_id": "1", "content": text}),
            json!({"content": [{"type": "text", "text": text}]}),
            json!({"content": [{"type": "document", "source": {"type": "text", "data": text}}]}),
            json!({"content": [{"type": "image_url", "image_url": {"url": text}}]}),
            json!({"type": "function_call_output", "output": text}),
            // A tool's output is text, even if it looks like encoded data.
            json!({"parts": [{"functionResponse": {"name": "t", "response":
                {"result": {"inlineData": {"data": text}, "signature": text}}}}]}),
            json!({"content": [{"type": "tool_use", "input": {"encrypted_content": text}}]}),
            json!({ text.as_str(): 1 }),
        ] {
            assert!(bytes(&message) >= 100_000, "{}", bytes(&message));
        }
    }
}
