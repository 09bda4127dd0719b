//! Halves of surrogate pairs in JSON texts of other parties.
//!
//! Programs that count text in UTF-16 units cut emoji in half, and write the half as an escape such
//! as `\ud83d`. The grammar of JSON allows such an escape (RFC 8259, section 8.2), but no Unicode
//! text contains half of a surrogate pair.

use std::borrow::Cow;

use memchr::memchr;

/// The escape of the replacement character.
const REPLACEMENT: &str = r"\ufffd";

/// Replaces each escape that is half of a surrogate pair by the escape of U+FFFD.
///
/// ```
/// use pillion_schema::lone_surrogates::replace;
/// assert_eq!(replace(r#""cut \ud83d""#), r#""cut \ufffd""#);
/// assert_eq!(replace(r#""whole \ud83d\ude00, \\ud83d""#), r#""whole \ud83d\ude00, \\ud83d""#);
/// ```
#[must_use]
pub fn replace(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut replaced = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr(b'\\', &bytes[at..]) {
        at += found;
        let is_lone = match unit(bytes, at) {
            None => {
                // The backslash escapes the next character, which is skipped.
                at = bytes.len().min(at + 2);
                continue;
            }
            Some(0xd800..=0xdbff) if matches!(unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => {
                at += 12;
                continue;
            }
            Some(unit) => matches!(unit, 0xd800..=0xdfff),
        };
        if is_lone {
            replaced.push_str(&json[copied..at]);
            replaced.push_str(REPLACEMENT);
            copied = at + REPLACEMENT.len();
        }
        at += REPLACEMENT.len();
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    replaced.push_str(&json[copied..]);
    Cow::Owned(replaced)
}

/// Returns the UTF-16 unit of the escape at this position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..)?.strip_prefix(br"\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit: u16, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    proptest! {
        #[test]
        fn a_text_with_any_escapes_becomes_valid_and_a_valid_one_stays(
            parts in prop::collection::vec("\\\\u[dD][89abcdABCD][0-9]{2}|\\\\u00e4|\\\\\\\\|\\\\n|ud83d|[a\u{e4}\u{1f600}]", 0..8)
        ) {
            let json = format!("\"{}\"", parts.concat());
            let replaced = replace(&json);
            prop_assert!(serde_json::from_str::<Value>(&replaced).is_ok(), "{} {}", json, replaced);
            if serde_json::from_str::<Value>(&json).is_ok() {
                prop_assert_eq!(&replaced, &json);
            }
            // Reading a text that is cut off does not panic.
            let _ = replace(&json[..json.len() - 1]);
        }
    }

    #[test]
    fn only_lone_halves_are_replaced() {
        for (json, expected) in [
            (r"\ud83d", r"\ufffd"),
            (r"\ude00", r"\ufffd"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
            (r"\ud83d\u0041", r"\ufffd\u0041"),
            (r"\uD83D\uDE00", r"\uD83D\uDE00"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\ud83", r"\ud83"),
            (r"\", r"\"),
            (r"\ud83d\", r"\ufffd\"),
        ] {
            assert_eq!(replace(json), expected);
        }
    }
}
