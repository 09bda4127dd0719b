use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ListKind;

/// The members of a list's page that the client uses. Some servers write the entries in another
/// member than the one that the specification requires.
#[derive(Default)]
pub(super) struct Page<'a> {
    /// The list of entries, or an object whose values are the entries.
    pub(super) entries: Option<&'a RawValue>,
    /// The cursor of the next page, `nextCursor`.
    pub(super) cursor: Option<&'a RawValue>,
    /// Whether the entries are not in the member that the specification requires.
    pub(super) is_misplaced: bool,
}

/// The cursor of the page after this one (`nextCursor`).
#[derive(Debug)]
pub(super) enum NextCursor<'a> {
    /// This is the last page, because the cursor is absent or an empty value such as `null`,
    /// `false`, `0` or `""`.
    None,
    /// The cursor, as the server wrote it: a string or a number.
    Cursor(&'a RawValue),
    /// `nextCursor` is neither a string nor a number.
    Unusable,
}

impl<'a> Page<'a> {
    /// Reads a page from the result of a list request, without storing unused members.
    ///
    /// # Errors
    /// The result is neither an object nor a list, or is invalid JSON.
    pub(super) fn read(result: &'a RawValue, kind: ListKind) -> Result<Self, serde_json::Error> {
        if result.get().starts_with('[') {
            // The result may be a list instead of an object, because servers in PHP write an empty
            // result as `[]`, and other servers send only the list of entries.
            return Ok(Self {
                entries: Some(result),
                cursor: None,
                is_misplaced: result.get() != "[]",
            });
        }
        let (page, inner_result) = Self::read_members(result, kind.key)?;
        match inner_result {
            Some(inner_result) if page.entries.is_none() && inner_result.get().starts_with('{') => {
                let (inner_page, _) = Self::read_members(inner_result, kind.key)?;
                Ok(Self {
                    is_misplaced: inner_page.entries.is_some(),
                    cursor: inner_page.cursor.or(page.cursor),
                    entries: inner_page.entries,
                })
            }
            _ => Ok(page),
        }
    }

    /// Reads the members of a JSON object as a page. Also returns the object's member `result`, if
    /// the object has one.
    fn read_members(
        object: &'a RawValue,
        key: &'static str,
    ) -> Result<(Self, Option<&'a RawValue>), serde_json::Error> {
        serde_json::Deserializer::from_str(object.get()).deserialize_map(PageMembers { key })
    }

    pub(super) fn next_cursor(&self) -> NextCursor<'a> {
        let Some(cursor) = self.cursor else {
            return NextCursor::None;
        };
        match cursor.get() {
            "null" | "false" | "0" | "0.0" | "\"\"" | "[]" | "{}" => NextCursor::None,
            text if text.starts_with(['"', '-']) => NextCursor::Cursor(cursor),
            text if text.starts_with(char::is_numeric) => NextCursor::Cursor(cursor),
            _ => NextCursor::Unusable,
        }
    }
}

struct PageMembers {
    key: &'static str,
}

impl<'de> Visitor<'de> for PageMembers {
    type Value = (Page<'de>, Option<&'de RawValue>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{}`", self.key)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut page, mut inner_result) = (Page::default(), None);
        while let Some(name) = members.next_key::<Cow<'_, str>>()? {
            match &*name {
                "nextCursor" => page.cursor = Some(members.next_value()?),
                "result" => inner_result = Some(members.next_value()?),
                name if name == self.key => page.entries = Some(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok((page, inner_result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(text: &str) -> String {
        let page = RawValue::from_string(format!(r#"{{"tools":[],"nextCursor":{text}}}"#)).unwrap();
        let page = Page::read(&page, ListKind::TOOLS).unwrap();
        match page.next_cursor() {
            NextCursor::Cursor(cursor) => cursor.get().to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn values_for_nothing_end_a_list() {
        for end in ["null", "false", "0", "0.0", "\"\"", "[]", "{}"] {
            assert_eq!(cursor(end), "None", "{end}");
        }
        for text in ["\"a\"", "\"0\"", "\" \"", "7", "-1", "1.5"] {
            assert_eq!(cursor(text), text);
        }
        for text in ["true", "[1]", r#"{"a":1}"#] {
            assert_eq!(cursor(text), "Unusable", "{text}");
        }
    }

    #[test]
    fn entries_are_found_where_untyped_servers_write_them() {
        for (result, entries, is_misplaced) in [
            (r#"{"tools":[1]}"#, Some("[1]"), false),
            (r#"{"tools":{"0":1}}"#, Some(r#"{"0":1}"#), false),
            (r#"{"result":{"tools":[1]}}"#, Some("[1]"), true),
            (
                r#"{"tools":[1],"result":{"tools":[2]}}"#,
                Some("[1]"),
                false,
            ),
            (r#"{"result":7}"#, None, false),
            (r#"{"prompts":[1]}"#, None, false),
            ("[1]", Some("[1]"), true),
            ("[]", Some("[]"), false),
            ("{}", None, false),
        ] {
            let result = RawValue::from_string(result.to_owned()).unwrap();
            let page = Page::read(&result, ListKind::TOOLS).unwrap();
            let found = (page.entries.map(RawValue::get), page.is_misplaced);
            assert_eq!(found, (entries, is_misplaced), "{result}");
        }
        for result in ["7", "\"x\"", "null"] {
            let result = RawValue::from_string(result.to_owned()).unwrap();
            assert!(Page::read(&result, ListKind::TOOLS).is_err(), "{result}");
        }
    }
}
