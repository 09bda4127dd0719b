//! Replaces unpaired surrogates in JSON texts of other parties.
//!
//! Programs that count text in UTF-16 units cut emoji in half, and write the half as an escape such
//! as `\ud83d`. The grammar of JSON allows such an escape (RFC 8259, section 8.2), but no Unicode
//! text contains an unpaired surrogate.

use std::borrow::Cow;

use memchr::memchr;

/// The escape of the replacement character.
const REPLACEMENT_ESCAPE: &str = r"\ufffd";

/// Replaces the escape of each unpaired surrogate with the escape of U+FFFD.
///
/// ```
/// use pillion_schema::lone_surrogates::replace;
/// assert_eq!(replace(r#""cut \ud83d""#), r#""cut \ufffd""#);
/// assert_eq!(replace(r#""whole \ud83d\ude00, \\ud83d""#), r#""whole \ud83d\ude00, \\ud83d""#);
/// ```
#[must_use]
pub fn replace(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut output = String::new();
    let (mut copied_until, mut offset) = (0, 0);
    while let Some(distance) = memchr(b'\\', &bytes[offset..]) {
        offset += distance;
        let is_lone = match utf16_unit(bytes, offset) {
            None => {
                // The backslash escapes the next character, which is skipped.
                offset = bytes.len().min(offset + 2);
                continue;
            }
            Some(0xd800..=0xdbff)
                if matches!(utf16_unit(bytes, offset + 6), Some(0xdc00..=0xdfff)) =>
            {
                offset += 12;
                continue;
            }
            Some(unit) => matches!(unit, 0xd800..=0xdfff),
        };
        if is_lone {
            output.push_str(&json[copied_until..offset]);
            output.push_str(REPLACEMENT_ESCAPE);
            copied_until = offset + REPLACEMENT_ESCAPE.len();
        }
        offset += REPLACEMENT_ESCAPE.len();
    }
    if copied_until == 0 {
        return Cow::Borrowed(json);
    }
    output.push_str(&json[copied_until..]);
    Cow::Owned(output)
}

/// Returns the UTF-16 unit of the escape at this position.
fn utf16_unit(bytes: &[u8], offset: usize) -> Option<u16> {
    let digits = bytes.get(offset..)?.strip_prefix(br"\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit: u16, digit| {
        let digit_value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit_value).ok()?)
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
