use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::EntryError;

/// A JSON object in an entry that is being checked. Contains the members in order, each as the
/// server wrote it.
pub(super) struct ObjectDraft {
    members: IndexMap<String, Box<RawValue>>,
    /// The path of the object in its entry, which precedes the names of members in messages.
    path: String,
    is_changed: bool,
    pub(super) repairs: Vec<String>,
}

impl ObjectDraft {
    pub(super) fn parse(text: &RawValue) -> Option<Self> {
        Self::parse_at_path(text, String::new())
    }

    fn parse_at_path(text: &RawValue, path: String) -> Option<Self> {
        // Parsing the text as a map also rejects text that is not a JSON object.
        let members = serde_json::from_str(text.get()).ok()?;
        Some(Self {
            members,
            path,
            is_changed: false,
            repairs: Vec::new(),
        })
    }

    /// Returns a draft of an object that is an item of a list in this object.
    pub(super) fn item_draft(&self, text: &RawValue, path: &str) -> Option<Self> {
        Self::parse_at_path(text, format!("{}{path}.", self.path))
    }

    /// Returns the object with its repairs, or `None` if the object was not changed.
    pub(super) fn changed_object(&self) -> Option<Box<RawValue>> {
        let object = self.is_changed.then(|| to_raw_value(&self.members));
        object.and_then(Result::ok)
    }

    fn read_member<'a, T: Deserialize<'a>>(&'a self, member: &str) -> Option<T> {
        serde_json::from_str(self.members.get(member)?.get()).ok()
    }

    /// Returns a member, or `None` if the member does not exist or is not valid JSON.
    pub(super) fn parsed_member(&self, member: &str) -> Option<Value> {
        self.read_member(member)
    }

    pub(super) fn has_member(&self, member: &str) -> bool {
        self.members.contains_key(member)
    }

    pub(super) fn raw_member(&self, member: &str) -> Option<&RawValue> {
        self.members.get(member).map(|raw_value| &**raw_value)
    }

    /// Returns a required string member.
    pub(super) fn required_text(&self, member: &str) -> Result<String, EntryError> {
        if !self.has_member(member) {
            let member = format!("{}{member}", self.path);
            return Err(EntryError::Missing { member });
        }
        let text = self.read_member(member);
        text.ok_or_else(|| self.unexpected_member(member, "a string"))
    }

    pub(super) fn unexpected_member(&self, member: &str, expected: &'static str) -> EntryError {
        EntryError::Unexpected {
            member: format!("{}{member}", self.path),
            expected,
        }
    }

    /// Removes an optional member that is `null`, because the MCP schemas do not allow null for
    /// optional members.
    pub(super) fn remove_null(&mut self, member: &str) {
        let value = self.members.get(member);
        if value.is_some_and(|value| value.get() == "null") {
            self.members.shift_remove(member);
            self.is_changed = true;
        }
    }

    /// Removes an optional member whose value `is_valid` does not accept.
    pub(super) fn remove_unless(
        &mut self,
        member: &str,
        expected: &str,
        is_valid: impl FnOnce(&Value) -> bool,
    ) {
        self.remove_null(member);
        let value = self.parsed_member(member);
        if self.has_member(member) && !value.is_some_and(|value| is_valid(&value)) {
            self.remove(member, expected);
        }
    }

    fn remove(&mut self, member: &str, expected: &str) {
        self.members.shift_remove(member);
        self.is_changed = true;
        let path = &self.path;
        let repair = format!("`{path}{member}` is not {expected} and was removed");
        self.repairs.push(repair);
    }

    pub(super) fn set(&mut self, member: &str, value: Box<RawValue>, repair: Option<&str>) {
        self.members.insert(member.to_owned(), value);
        self.is_changed = true;
        self.repairs.extend(repair.map(str::to_owned));
    }

    /// Repairs an optional member that is an object, and removes a member that is not an object.
    pub(super) fn repair_nested(&mut self, member: &str, repair: impl FnOnce(&mut Self)) {
        self.remove_null(member);
        let Some(raw_value) = self.members.get(member) else {
            return;
        };
        let Some(mut nested_draft) = self.item_draft(raw_value, member) else {
            return self.remove(member, "an object");
        };
        repair(&mut nested_draft);
        self.store_changes(member, nested_draft);
    }

    /// Writes a member's repaired draft back, and adds the draft's repairs to the repairs of this
    /// object.
    pub(super) fn store_changes(&mut self, member: &str, mut draft: Self) {
        if let Some(changed_object) = draft.changed_object() {
            self.set(member, changed_object, None);
        }
        self.repairs.append(&mut draft.repairs);
    }

    /// Returns the items of an optional list member.
    pub(super) fn optional_list(
        &mut self,
        member: &str,
    ) -> Result<Option<Vec<Box<RawValue>>>, EntryError> {
        self.remove_null(member);
        if !self.has_member(member) {
            return Ok(None);
        }
        self.read_member(member)
            .map(Some)
            .ok_or_else(|| self.unexpected_member(member, "a list"))
    }

    /// Repairs each item of a list member. `repair` gets the item and its path, and returns `None`
    /// for an item that is removed.
    pub(super) fn repair_items(
        &mut self,
        member: &str,
        items: Vec<Box<RawValue>>,
        repair: impl Fn(&mut Self, &RawValue, &str) -> Result<Option<Self>, EntryError>,
    ) -> Result<(), EntryError> {
        let mut repaired_items = Vec::with_capacity(items.len());
        let mut is_changed = false;
        for (index, item) in items.into_iter().enumerate() {
            let Some(mut draft) = repair(self, &item, &format!("{member}[{index}]"))? else {
                is_changed = true;
                continue;
            };
            let changed_item = draft.changed_object();
            is_changed |= changed_item.is_some();
            self.repairs.append(&mut draft.repairs);
            repaired_items.push(changed_item.unwrap_or(item));
        }
        if is_changed && let Ok(items) = to_raw_value(&repaired_items) {
            self.set(member, items, None);
        }
        Ok(())
    }

    /// Returns the names of the members.
    pub(super) fn member_names(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }
}
