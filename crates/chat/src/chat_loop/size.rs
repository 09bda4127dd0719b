use serde_json::{Map, Value};

use crate::Delta;
use crate::state::Measured;

/// As how many characters encoded data, such as an image, counts at most: how many tokens it takes has
/// little to do with its length.
const ENCODED: u64 = 4096;

/// What tools have returned and models have said to them: whatever it looks like, it is read as text.
const TEXT: [&str; 4] = ["response", "args", "input", "arguments"];

/// Members that hold encoded data wherever they stand in a message: what providers sign and encrypt,
/// and OpenAI's files.
const ENCODED_MEMBERS: [&str; 5] = [
    "encrypted_content",
    "signature",
    "thoughtSignature",
    "thought_signature",
    "file_data",
];

/// About how long a message or a response is as JSON, in characters of ASCII that take as many tokens.
/// Encoded data is known by its place in the shapes of the providers, never by its looks: text without a
/// blank is text.
pub(crate) fn bytes(message: &Value) -> u64 {
    length(message, "", true)
}

/// The same of what has no encoded data: a tool's result, schemas, the system's text.
pub(crate) fn plain(value: &Value) -> u64 {
    length(value, "", false)
}

/// The same of a piece of an answer; not 0.
pub(crate) fn of_delta(delta: &Delta) -> u64 {
    match delta {
        Delta::Text(text) | Delta::Thought(text) => text_bytes(text).max(1),
        Delta::ToolCall {
            name, arguments, ..
        } => text_bytes(name.as_deref().unwrap_or_default()) + text_bytes(arguments).max(1),
        Delta::Native(body) => bytes(body),
    }
}

/// That of a value that stands under `key`.
fn length(value: &Value, key: &str, may_be_encoded: bool) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => 2 + text_bytes(text),
        Value::Array(items) => {
            let items = items.iter();
            let items = items.map(|item| length(item, key, may_be_encoded) + 1);
            items.sum::<u64>() + 2
        }
        Value::Object(members) => {
            let lengths = members.iter().map(|(name, value)| {
                let may_be_encoded = may_be_encoded && !TEXT.contains(&name.as_str());
                text_bytes(name)
                    + 4
                    + match value {
                        Value::String(text)
                            if may_be_encoded && is_encoded(members, key, name, text) =>
                        {
                            2 + ENCODED.min(text_bytes(text))
                        }
                        value => length(value, name, may_be_encoded),
                    }
            });
            lengths.sum::<u64>() + 2
        }
    }
}

/// Whether the text of that name is encoded data, in an object that stands under `key`.
fn is_encoded(members: &Map<String, Value>, key: &str, name: &str, text: &str) -> bool {
    let is_of_type = |kind: &str| members.get("type").is_some_and(|it| it == kind);
    match (key, name) {
        // OpenAI's images, of either API, and its audio.
        ("image_url", "url") | (_, "image_url") => text.starts_with("data:"),
        ("input_audio", "data") => true,
        // Anthropic's images and documents, and thoughts that it keeps to itself.
        ("source", "data") => is_of_type("base64"),
        (_, "data") if is_of_type("redacted_thinking") => true,
        // Google's.
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

/// As how many characters of ASCII one counts. Four of those are a token. So is about one ideograph,
/// kana or syllable of Hangul; letters of other alphabets come two to a token, and what is beyond
/// the first plane, such as emoji, takes two or more.
fn weight(character: char) -> u64 {
    match character {
        '\0'..='\u{7f}' => 1,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' => 4,
        '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ffef}' => 4,
        '\u{80}'..='\u{ffff}' => 2,
        _ => 8,
    }
}

/// About how many tokens so many characters are: as many for each as the provider counted in the
/// request before, or else one for four.
pub(crate) fn tokens(bytes: u64, measured: Option<Measured>) -> u64 {
    match measured {
        // A count that is far from what any tokenizer gives is a fault of the provider's.
        Some(Measured {
            bytes: known,
            tokens,
        }) if known > 0 => part(bytes, tokens, known).clamp(bytes / 16, bytes),
        _ => bytes.div_ceil(4),
    }
}

/// `whole * share / of`.
pub(crate) fn part(whole: u64, share: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(share) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the tokenizers of OpenAI's newer and older models (o200k, cl100k) make of each.
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
            // Not too few for the newer, and near enough to the worse of the two.
            assert!(estimated >= newer, "{text}: {estimated}");
            assert!(estimated <= 2 * older, "{text}: {estimated}");
            assert!(3 * estimated >= 2 * older, "{text}: {estimated}");
        }
    }

    #[test]
    fn h4_encoded_data_counts_as_much_whatever_its_length() {
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
    fn h4_text_without_blanks_is_text_all_the_same() {
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
            // What a tool returns says nothing of itself.
            json!({"parts": [{"functionResponse": {"name": "t", "response":
                {"result": {"inlineData": {"data": text}, "signature": text}}}}]}),
            json!({"content": [{"type": "tool_use", "input": {"encrypted_content": text}}]}),
            json!({ text.as_str(): 1 }),
        ] {
            assert!(bytes(&message) >= 100_000, "{}", bytes(&message));
        }
    }
}
