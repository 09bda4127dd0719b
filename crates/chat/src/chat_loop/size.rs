use serde_json::Value;

use crate::state::Measured;

/// A string longer than this that has no blank at its beginning is encoded data, such as an
/// image. It counts as so many characters: how many tokens it takes has little to do with its length.
const ENCODED: usize = 4096;

/// About how long a value is as JSON, in characters of ASCII that take as many tokens.
pub(crate) fn bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text_bytes(text),
        Value::Array(items) => items.iter().map(|item| bytes(item) + 1).sum::<u64>() + 2,
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(key, value)| key.len() as u64 + 4 + bytes(value));
            members.sum::<u64>() + 2
        }
    }
}

fn text_bytes(text: &str) -> u64 {
    let is_encoded = text.len() > ENCODED
        && !text.as_bytes()[..ENCODED]
            .iter()
            .any(u8::is_ascii_whitespace)
        && text.is_ascii();
    2 + if is_encoded {
        ENCODED as u64
    } else if text.is_ascii() {
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
        let data = json!("QUJD".repeat(100_000));
        assert_eq!(bytes(&data), 2 + 4096);
        // A long text without blanks is a text all the same.
        let text = json!("字".repeat(10_000));
        assert_eq!(tokens(bytes(&text), None), 10_001);
    }
}
