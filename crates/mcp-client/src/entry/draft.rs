use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::EntryError;

/// A JSON object of an entry that is being checked: members in order, each as the server wrote it.
pub(super) struct Draft {
    members: IndexMap<String, Box<RawValue>>,
    /// The path of the object in its entry, the prefix of member names in messages.
    path: String,
    is_changed: bool,
    pub(super) repairs: Vec<String>,
}

impl Draft {
    pub(super) fn parse(text: &RawValue) -> Option<Self> {
        Self::at(text, String::new())
    }

    fn at(text: &RawValue, path: String) -> Option<Self> {
        // serde reads a map only from an object.
        let members = serde_json::from_str(text.get()).ok()?;
        Some(Self {
            members,
            path,
            is_changed: false,
            repairs: Vec::new(),
        })
    }

    /// Returns a draft of an object that is an item of a list in this object.
    pub(super) fn item(&self, text: &RawValue, path: &str) -> Option<Self> {
        Self::at(text, format!("{}{path}.", self.path))
    }

    /// Returns the object with its repairs, or `None` if the object was not changed.
    pub(super) fn changed(&self) -> Option<Box<RawValue>> {
        let changed = self.is_changed.then(|| to_raw_value(&self.members));
        changed.and_then(Result::ok)
    }

    fn read<'a, T: Deserialize<'a>>(&'a self, member: &str) -> Option<T> {
        serde_json::from_str(self.members.get(member)?.get()).ok()
    }

    /// Returns a member, or `None` if the member does not exist or is not valid JSON.
    pub(super) fn value(&self, member: &str) -> Option<Value> {
        self.read(member)
    }

    pub(super) fn has(&self, member: &str) -> bool {
        self.members.contains_key(member)
    }

    pub(super) fn raw(&self, member: &str) -> Option<&RawValue> {
        self.members.get(member).map(|raw| &**raw)
    }

    /// Returns a required string member.
    pub(super) fn text(&self, member: &str) -> Result<String, EntryError> {
        if !self.has(member) {
            let member = format!("{}{member}", self.path);
            return Err(EntryError::Missing { member });
        }
        let text = self.read(member);
        text.ok_or_else(|| self.unexpected(member, "a string"))
    }

    pub(super) fn unexpected(&self, member: &str, expected: &'static str) -> EntryError {
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

    /// Removes an optional member whose value `fits` does not accept.
    pub(super) fn keep_if(
        &mut self,
        member: &str,
        expected: &str,
        fits: impl FnOnce(&Value) -> bool,
    ) {
        self.remove_null(member);
        if self.has(member) && !self.value(member).is_some_and(|value| fits(&value)) {
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

    /// Checks an optional member that is an object.
    pub(super) fn nested(&mut self, member: &str, check: impl FnOnce(&mut Self)) {
        self.remove_null(member);
        let Some(raw) = self.members.get(member) else {
            return;
        };
        let Some(mut inner) = Self::at(raw, format!("{}{member}.", self.path)) else {
            return self.remove(member, "an object");
        };
        check(&mut inner);
        if let Some(changed) = inner.changed() {
            self.set(member, changed, None);
        }
        self.repairs.append(&mut inner.repairs);
    }

    /// Returns the items of an optional list member.
    pub(super) fn list(&mut self, member: &str) -> Result<Option<Vec<Box<RawValue>>>, EntryError> {
        self.remove_null(member);
        if !self.has(member) {
            return Ok(None);
        }
        let items = self.read(member);
        items
            .map(Some)
            .ok_or_else(|| self.unexpected(member, "a list"))
    }

    /// Checks each item of a list member. `check` gets the item and its path, and returns `None` for
    /// an item that is removed.
    pub(super) fn check_items(
        &mut self,
        member: &str,
        items: Vec<Box<RawValue>>,
        check: impl Fn(&mut Self, &RawValue, &str) -> Result<Option<Self>, EntryError>,
    ) -> Result<(), EntryError> {
        let mut checked = Vec::with_capacity(items.len());
        let mut is_changed = false;
        for (index, item) in items.into_iter().enumerate() {
            let Some(mut draft) = check(self, &item, &format!("{member}[{index}]"))? else {
                is_changed = true;
                continue;
            };
            let changed = draft.changed();
            is_changed |= changed.is_some();
            self.repairs.append(&mut draft.repairs);
            checked.push(changed.unwrap_or(item));
        }
        if is_changed && let Ok(items) = to_raw_value(&checked) {
            self.set(member, items, None);
        }
        Ok(())
    }

    /// Returns the names of the members.
    pub(super) fn names(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }
}
