use serde_json::Value;

use crate::state::Measured;

/// A string longer than this that has no blank at its beginning is encoded data, such as an
/// image. It counts as so many bytes: how many tokens it takes has little to do with its length.
const ENCODED: usize = 4096;

/// About how long a value is as JSON, in bytes.
pub(crate) fn bytes(value: &Value) -> u64 {
    let size = match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text_bytes(text),
        Value::Array(items) => return items.iter().map(|item| bytes(item) + 1).sum::<u64>() + 2,
        Value::Object(members) => {
            let members = members.iter();
            return members
                .map(|(key, value)| key.len() as u64 + 4 + bytes(value))
                .sum::<u64>()
                + 2;
        }
    };
    size as u64
}

fn text_bytes(text: &str) -> usize {
    let is_encoded = text.len() > ENCODED
        && !text.as_bytes()[..ENCODED]
            .iter()
            .any(u8::is_ascii_whitespace);
    2 + if is_encoded { ENCODED } else { text.len() }
}

/// About how many tokens so many bytes of JSON are: as many for each byte as the provider counted in
/// the request before, or else one for four bytes.
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
