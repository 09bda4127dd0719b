//! A limit on the number of values in a JSON text of another party.
//!
//! In memory, a value of two bytes, such as `0,`, takes 72 bytes, and an array with one value takes
//! 360 bytes, so a limit of bytes alone admits texts that need a hundred times their size. The
//! values are counted before the text is parsed.

use std::fmt;

use memchr::{memchr_iter, memchr2};
use serde::de::{Deserialize, Error};

/// Maximum number of values of a JSON text. In memory, a million values take at most 256 MB, in
/// addition to their texts.
pub const MAX_VALUES: usize = 1_000_000;

/// Error of a JSON text with more than [`MAX_VALUES`] values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyValues;

impl fmt::Display for TooManyValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MAX_VALUES} JSON values")
    }
}

impl std::error::Error for TooManyValues {}

/// Returns an upper bound of the number of values of a JSON text: empty arrays and objects count
/// twice. Names of members do not count.
///
/// ```
/// use pillion_schema::json_values::count;
/// assert_eq!(count(br#"{"a": [1, 2], "b": "[,]"}"#), 5);
/// ```
#[must_use]
pub fn count(json: &[u8]) -> usize {
    scan(json, usize::MAX, |_| 0)
}

/// Returns an upper bound of the number of values of a JSON text and of the JSON texts in its
/// strings together, such as the arguments of calls. A string that does not begin like an array or
/// an object counts as one value.
///
/// ```
/// use pillion_schema::json_values::count_with_texts;
/// assert_eq!(count_with_texts(br#"{"arguments": "{\"a\": [1, 2]}"}"#), 5);
/// assert_eq!(count_with_texts(br#"["one, two, three"]"#), 2);
/// ```
#[must_use]
pub fn count_with_texts(json: &[u8]) -> usize {
    scan(json, usize::MAX, |text| {
        // A backslash may begin an escaped bracket.
        match text.trim_ascii_start().first() {
            Some(b'[' | b'{' | b'\\') => count_separators(text),
            _ => 0,
        }
    })
}

/// Returns an upper bound of [`count_with_texts`], in a fraction of the time. Separators in all
/// strings count, so this function also suits a JSON text that is split over several strings.
#[must_use]
pub fn count_with_strings(json: &[u8]) -> usize {
    1 + count_separators(json)
}

/// Checks that a JSON text has at most [`MAX_VALUES`] values, counted as by [`count`]. Short texts
/// are not read.
///
/// # Errors
/// The text has more than [`MAX_VALUES`] values.
pub fn check(json: &[u8]) -> Result<(), TooManyValues> {
    // The text has at least as many bytes as values, so a short text cannot have too many values.
    if json.len() < MAX_VALUES || scan(json, MAX_VALUES, |_| 0) <= MAX_VALUES {
        Ok(())
    } else {
        Err(TooManyValues)
    }
}

/// Parses a JSON text of another party like [`serde_json::from_str`].
///
/// # Errors
/// The text is not valid, or has more than [`MAX_VALUES`] values.
///
/// ```
/// use pillion_schema::json_values::from_str;
/// use serde_json::Value;
/// let many = format!("[{}0]", "[],".repeat(1_000_000));
/// let error = from_str::<Value>(&many).unwrap_err();
/// assert_eq!(error.to_string(), "more than 1000000 JSON values");
/// ```
pub fn from_str<'de, T: Deserialize<'de>>(json: &'de str) -> serde_json::Result<T> {
    check(json.as_bytes()).map_err(Error::custom)?;
    serde_json::from_str(json)
}

/// Parses a JSON text of another party like [`serde_json::from_slice`].
///
/// # Errors
/// The same errors as [`from_str`].
pub fn from_slice<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    check(json).map_err(Error::custom)?;
    serde_json::from_slice(json)
}

/// Counts `,`, `[` and `{` everywhere, also in strings, because each may be followed by a value.
fn count_separators(json: &[u8]) -> usize {
    // The text is searched three times, because searching for a single byte is much faster than
    // searching for any of several bytes.
    let count_byte = |byte| memchr_iter(byte, json).count();
    count_byte(b',') + count_byte(b'[') + count_byte(b'{')
}

/// Counts values, and adds the result of `count_string` for each string. Stops when the count
/// exceeds `max`.
fn scan(json: &[u8], max: usize, count_string: impl Fn(&[u8]) -> usize) -> usize {
    let mut values = 1;
    let mut rest = json;
    while values <= max {
        let is_syntax = |byte: &u8| matches!(byte, b',' | b'[' | b'{' | b'"');
        let Some(offset) = rest.iter().position(is_syntax) else {
            break;
        };
        let is_string = rest[offset] == b'"';
        rest = &rest[offset + 1..];
        if is_string {
            let end = string_end(rest);
            values += count_string(&rest[..end]);
            rest = rest.get(end + 1..).unwrap_or_default();
        } else {
            values += 1;
        }
    }
    values
}

/// Returns the length of a string in JSON; `json` is the text after the string's first quote.
fn string_end(json: &[u8]) -> usize {
    let mut start = 0;
    while let Some(distance) = memchr2(b'"', b'\\', json.get(start..).unwrap_or_default()) {
        let offset = start + distance;
        if json[offset] == b'"' {
            return offset;
        }
        start = offset + 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Returns the exact number of values of a parsed text.
    fn values(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (json, expected) in [
            ("", 1),
            ("1", 1),
            ("[1,2,3]", 4),
            (r#"{"a":1,"b":[{},[]]}"#, 7),
            (r#""[,{[,{""#, 1),
            (r#"["\\\"[[[[", "\\\\",[]]"#, 5),
            (r#"{"a,[{":"b\\",  "c" : null}"#, 3),
            (r#"["unfinished \"#, 2),
        ] {
            assert_eq!(count(json.as_bytes()), expected, "{json}");
        }
    }

    /// Generates any value, with strings and names that look like JSON.
    fn any_value() -> impl Strategy<Value = Value> {
        let text = r#"[\[\]{},:"\\a ]{0,6}"#;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 200, 8, move |inner| {
            let members = prop::collection::hash_map(text, inner.clone(), 0..8);
            prop_oneof![
                prop::collection::vec(inner, 0..8).prop_map(Value::from),
                members.prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_has_more_values_than_are_counted(value in any_value(), indented: bool) {
            let json = if indented { format!("{value:#}") } else { value.to_string() };
            let counted = count(json.as_bytes());
            prop_assert!(values(&value) <= counted && counted <= 2 * values(&value), "{}", json);
            let with_texts = count_with_texts(json.as_bytes());
            prop_assert!(counted <= with_texts, "{}", json);
            prop_assert!(with_texts <= count_with_strings(json.as_bytes()), "{}", json);
            // The text is a string, like the arguments of a call.
            let text = Value::from(format!(" {json}")).to_string();
            let is_list = value.is_array() || value.is_object();
            prop_assert!(!is_list || count_with_texts(text.as_bytes()) >= counted, "{}", json);
        }
    }

    #[test]
    fn the_limit_is_exact_whatever_the_values() {
        let few = format!("[{}0]", "0,".repeat(MAX_VALUES - 2));
        assert_eq!(from_str::<Vec<u8>>(&few).unwrap().len(), MAX_VALUES - 1);
        for value in ["0", "[]", "{}", "[0]", r#"{"":0}"#, r#""""#] {
            let many = format!("[{}0]", format!("{value},").repeat(MAX_VALUES));
            let error = from_str::<Value>(&many).unwrap_err();
            assert_eq!(error.to_string(), TooManyValues.to_string(), "{value}");
            assert!(from_slice::<Value>(many.as_bytes()).is_err(), "{value}");
            // A JSON text inside a string counts as one value.
            let text = Value::from(many).to_string();
            assert!(from_str::<Value>(&text).is_ok(), "{value}");
            assert!(count_with_texts(text.as_bytes()) > MAX_VALUES, "{value}");
        }
    }
}
