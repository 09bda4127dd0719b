use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{KeyPath, KeyStep};

/// Returns the line number, from 1, of `key` in the text, or `None` if the text does not contain
/// the key.
pub(super) fn find_line(text: &str, key: &KeyPath) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut offset = 0;
    let mut table = Some(document.get_ref());
    let mut array: Option<&[Spanned<DeValue<'_>>]> = None;
    for step in key.steps() {
        let located_value = match step {
            KeyStep::Name(name) => {
                let entry = table.and_then(|table| {
                    table
                        .iter()
                        .find(|(key, _)| key.get_ref().as_ref() == name.as_str())
                });
                entry.map(|(key, value)| (key.span().start, value))
            }
            KeyStep::Index(index) => {
                let element = array.and_then(|array| array.get(*index));
                element.map(|value| (value.span().start, value))
            }
        };
        let (start, value) = located_value?;
        offset = start;
        (table, array) = match value.get_ref() {
            DeValue::Table(table) => (Some(table), None),
            DeValue::Array(array) => (None, Some(array.as_ref())),
            _ => (None, None),
        };
    }
    Some(find_line_number(text, offset))
}

/// Returns the line number, from 1, of the byte at `offset`.
pub(super) fn find_line_number(text: &str, offset: usize) -> usize {
    let preceding_bytes = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + preceding_bytes
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}
