use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};

use super::{ListReader, MAX_ENTRY_BYTES, PageFindings};

/// Adds the entries of a page to a list, within the list's limits.
pub(super) struct PageEntries<'a> {
    pub(super) list: &'a mut ListReader,
}

impl<'de> Visitor<'de> for PageEntries<'_> {
    type Value = PageFindings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list or an object as `{}`", self.list.kind.key)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut findings = PageFindings::default();
        while let Some(entry) = entries.next_element::<&RawValue>()? {
            self.list.add_entry(entry, &mut findings);
            if findings.is_full() {
                while entries.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(findings)
    }

    /// Reads the entries of a list that the server wrote as a JSON object. PHP writes a list with
    /// gaps as an object with numbers as keys; other servers use the names of the entries as keys.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut findings = PageFindings::default();
        while let Some((key, entry)) = entries.next_entry::<Cow<'_, str>, &RawValue>()? {
            match add_identifier(self.list.kind.identifier, &key, entry) {
                Some(entry) => self.list.add_entry(&entry, &mut findings),
                None => self.list.add_entry(entry, &mut findings),
            }
            if findings.is_full() {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(findings)
    }
}

/// Returns an entry with `key` as its identifier, if the entry is an object without an identifier.
fn add_identifier(identifier: &str, key: &str, entry: &RawValue) -> Option<Box<RawValue>> {
    type Members<'a> = IndexMap<Cow<'a, str>, &'a RawValue>;
    if entry.get().len() > MAX_ENTRY_BYTES || key.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let members: Members<'_> = serde_json::from_str(entry.get()).ok()?;
    if members.contains_key(identifier) {
        return None;
    }
    let name = to_raw_value(key).ok()?;
    let mut named_members = Members::with_capacity(members.len() + 1);
    named_members.insert(Cow::Borrowed(identifier), &name);
    named_members.extend(members);
    to_raw_value(&named_members).ok()
}
