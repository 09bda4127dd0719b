use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{KeyPath, KeyStep};

/// Returns the line number, from 1, of `key` in the text, or `None` if the text does not contain
/// the key.
pub(super) fn find_line(text: &str, key: &KeyPath) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let offset = find_offset(document.get_ref(), key)?;
    Some(find_line_number(text, offset))
}

/// Finds the lines of many keys of one text.
pub(super) struct KeyLines<'a> {
    /// `None` if the text is not valid TOML.
    document: Option<Spanned<DeTable<'a>>>,
    /// The offsets of the line breaks.
    line_breaks: Vec<usize>,
}

impl<'a> KeyLines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let line_breaks = text.match_indices('\n').map(|(offset, _)| offset);
        Self {
            document: DeTable::parse(text).ok(),
            line_breaks: line_breaks.collect(),
        }
    }

    /// Returns the line number of `key`, like [`find_line`].
    pub(super) fn find(&self, key: &KeyPath) -> Option<usize> {
        let offset = find_offset(self.document.as_ref()?.get_ref(), key)?;
        let preceding_breaks = self.line_breaks.partition_point(|start| *start < offset);
        Some(1 + preceding_breaks)
    }
}

/// Returns the offset of `key` in the text of the document.
fn find_offset(document: &DeTable<'_>, key: &KeyPath) -> Option<usize> {
    let mut offset = 0;
    let mut table = Some(document);
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
    Some(offset)
}

/// Returns the line number, from 1, of the byte at `offset`.
pub(super) fn find_line_number(text: &str, offset: usize) -> usize {
    let preceding_bytes = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + preceding_bytes
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}
