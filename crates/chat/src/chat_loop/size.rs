use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Delta;

/// The maximum number of characters that encoded data, such as an image, adds to a computed size.
/// The number of tokens of such data hardly depends on its length.
const MAX_ENCODED_CHARS: u64 = 4096;

/// Members of messages whose content is always text: the results of tools, and the arguments that
/// models have written.
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

/// Returns the approximate length of a message or a response as JSON: the number of ASCII
/// characters that would take the same number of tokens. Encoded data is recognized by its position
/// in the providers' formats, never by its content, because text without spaces looks like encoded
/// data.
pub(crate) fn measure_message(message: &Value) -> u64 {
    measure_value(message, "", true)
}

/// Returns the size of the part of a message at this JSON pointer, computed like
/// [`measure_message`].
pub(crate) fn measure_part(pointer: &str, value: &Value) -> u64 {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    measure_value(value, name, !TEXT_MEMBERS.contains(&name))
}

/// Returns the length of a value that contains no encoded data, such as a tool result, a schema or
/// the system prompt.
pub(crate) fn measure_text_value(value: &Value) -> u64 {
    measure_value(value, "", false)
}

/// Returns the number of characters of a piece of a streamed response, at least 1.
pub(crate) fn measure_delta(delta: &Delta) -> u64 {
    match delta {
        Delta::Text(text) | Delta::Thought(text) => measure_text(text).max(1),
        Delta::ToolCall {
            name, arguments, ..
        } => measure_text(name.as_deref().unwrap_or_default()) + measure_text(arguments).max(1),
        Delta::Native(body) => measure_message(body),
    }
}

/// Returns the length of `value`, which is the value of the object member `key`.
fn measure_value(value: &Value, key: &str, may_be_encoded: bool) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => 2 + measure_text(text),
        Value::Array(items) => {
            let sizes = items
                .iter()
                .map(|item| measure_value(item, key, may_be_encoded) + 1);
            sizes.sum::<u64>() + 2
        }
        Value::Object(members) => {
            let sizes = members.iter().map(|(name, value)| {
                let may_be_encoded = may_be_encoded && !TEXT_MEMBERS.contains(&name.as_str());
                measure_text(name)
                    + 4
                    + match value {
                        Value::String(text)
                            if may_be_encoded && is_encoded(members, key, name, text) =>
                        {
                            2 + MAX_ENCODED_CHARS.min(measure_text(text))
                        }
                        value => measure_value(value, name, may_be_encoded),
                    }
            });
            sizes.sum::<u64>() + 2
        }
    }
}

/// Returns whether `text`, the value of `members[name]`, is encoded data. `key` is the name under
/// which the parent object contains `members`.
fn is_encoded(members: &Map<String, Value>, key: &str, name: &str, text: &str) -> bool {
    let is_of_type = |kind: &str| members.get("type").is_some_and(|member| member == kind);
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

fn measure_text(text: &str) -> u64 {
    if text.is_ascii() {
        text.len() as u64
    } else {
        text.chars().map(weigh_char).sum()
    }
}

/// Returns how many ASCII characters a character counts for. Four ASCII characters are about one
/// token, and so is one ideograph, kana or Hangul syllable. Letters of other alphabets take half a
/// token; characters beyond the Basic Multilingual Plane, such as emoji, take two or more tokens.
fn weigh_char(character: char) -> u64 {
    match character {
        '\0'..='\u{7f}' => 1,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' => 4,
        '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ffef}' => 4,
        '\u{80}'..='\u{ffff}' => 2,
        _ => 8,
    }
}

/// Returns the approximate number of tokens of a text with this length. Uses the ratio of tokens to
/// characters that the provider reported for the previous request, or one token for four characters
/// if the provider has reported none.
pub(crate) fn estimate_tokens(bytes: u64, measured_request: Option<MeasuredRequest>) -> u64 {
    match measured_request {
        // The estimate is limited to between 1/16 token and one token per character, because no
        // tokenizer produces a count outside of this range.
        Some(MeasuredRequest {
            bytes: measured_bytes,
            tokens,
        }) if measured_bytes > 0 => scale(bytes, tokens, measured_bytes).clamp(bytes / 16, bytes),
        _ => bytes.div_ceil(4),
    }
}

/// Returns `value * numerator / denominator`.
pub(crate) fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
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
            let estimated = estimate_tokens(measure_message(&json!(text)), None);
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
            let size = measure_message(&message);
            assert!((4096..4400).contains(&size), "{size}");
        }
    }

    #[test]
    fn h4_text_without_spaces_is_not_taken_for_encoded_data() {
        let text = json!("字".repeat(10_000));
        assert_eq!(estimate_tokens(measure_message(&text), None), 10_001);
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
            assert!(
                measure_message(&message) >= 100_000,
                "{}",
                measure_message(&message)
            );
        }
    }
}
