//! Arguments that an approver changes before the call runs.
//!
//! The approver changes the arguments as shown, with some values redacted. If the approver leaves a
//! redacted value unchanged, the call runs with the original value, so neither the approver nor the
//! store gets a secret. New values of redacted members are rejected, because the store would
//! contain them unencrypted.

use pillion_core::executor::Redaction;
use pillion_core::tool::JsonObject;
use serde_json::{Map, Value};

/// Why arguments cannot be changed as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// A redacted member has a value other than the redacted value that the approver was shown.
    #[error(
        "'{pointer}' is redacted: repeat the shown value to keep the call's own value, or leave the \
         member out"
    )]
    Redacted {
        /// The JSON Pointer of the member.
        pointer: String,
    },
}

/// Checks arguments that an approver sets in place of the `shown_arguments`.
///
/// # Errors
/// [`EditError::Redacted`]: a redacted member of an object has a value other than the shown one, or
/// a list that contains redacted members has changed. A list with redacted members must stay
/// unchanged, because its items have no names.
pub fn check_edit(
    redaction: &Redaction,
    shown_arguments: &Value,
    edited_arguments: &JsonObject,
) -> Result<(), EditError> {
    let empty_object = Map::new();
    let shown_members = shown_arguments.as_object().unwrap_or(&empty_object);
    check_members(redaction, shown_members, edited_arguments, "")
}

fn check_members(
    redaction: &Redaction,
    shown_members: &JsonObject,
    edited_members: &JsonObject,
    parent: &str,
) -> Result<(), EditError> {
    for (name, value) in edited_members {
        let shown_value = shown_members.get(name);
        if shown_value == Some(value) {
            continue;
        }
        let pointer = format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"));
        if redaction.hides(name) {
            return Err(EditError::Redacted { pointer });
        }
        check_value(redaction, shown_value, value, &pointer)?;
    }
    Ok(())
}

fn check_value(
    redaction: &Redaction,
    shown_value: Option<&Value>,
    edited_value: &Value,
    pointer: &str,
) -> Result<(), EditError> {
    match edited_value {
        Value::Object(edited_members) => {
            let empty_object = Map::new();
            let shown_object = shown_value.and_then(Value::as_object);
            let shown_members = shown_object.unwrap_or(&empty_object);
            check_members(redaction, shown_members, edited_members, pointer)
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| {
                check_value(redaction, None, item, &format!("{pointer}/{index}"))
            })
        }
        _ => Ok(()),
    }
}

/// Returns the arguments with which the call runs: the arguments `edited`, in which each value that
/// is the same as in `shown` is replaced by the call's own value in `original`. Returns `None` if
/// `shown` or `edited` is not a JSON object.
pub(super) fn apply(original: &JsonObject, shown: &str, edited: &str) -> Option<JsonObject> {
    let shown_members: JsonObject = serde_json::from_str(shown).ok()?;
    let edited_members: JsonObject = serde_json::from_str(edited).ok()?;
    Some(merge(original, &shown_members, &edited_members))
}

fn merge(original: &JsonObject, shown: &JsonObject, edited: &JsonObject) -> JsonObject {
    let members = edited.iter().map(|(name, value)| {
        let merged_value = match (original.get(name), shown.get(name), value) {
            (Some(original_value), Some(shown_value), _) if shown_value == value => {
                original_value.clone()
            }
            (Some(Value::Object(original)), Some(Value::Object(shown)), Value::Object(edited)) => {
                Value::Object(merge(original, shown, edited))
            }
            _ => value.clone(),
        };
        (name.clone(), merged_value)
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        serde_json::from_value(value).unwrap()
    }

    /// Returns the arguments with which a call runs, or the pointer of a rejected member.
    fn edited(original: Value, edit: impl FnOnce(&mut Value)) -> Result<Value, String> {
        let redaction = Redaction::default();
        let shown = redaction.redact(&original);
        let mut edited = shown.clone();
        edit(&mut edited);
        let edited = object(edited);
        check_edit(&redaction, &shown, &edited)
            .map_err(|EditError::Redacted { pointer }| pointer)?;
        let text = Value::Object(edited).to_string();
        let merged = apply(&object(original), &shown.to_string(), &text);
        Ok(Value::Object(merged.unwrap()))
    }

    fn original() -> Value {
        json!({"to": "bob", "login": {"user": "ann", "password": "hunter2", "token": {"key": "a"}},
            "list": [{"secret": "1"}, {"secret": "2"}], "plain": [1, 2]})
    }

    #[test]
    fn redacted_values_stay_the_callers_own() {
        let changed = edited(original(), |shown| {
            shown["to"] = json!("carol");
            shown["login"]["user"] = json!("[redacted: string, 7 characters]");
            shown["plain"] = json!([2]);
            shown["new"] = json!({"a": [true]});
        });
        let mut expected = original();
        expected["to"] = json!("carol");
        expected["login"]["user"] = json!("[redacted: string, 7 characters]");
        expected["plain"] = json!([2]);
        expected["new"] = json!({"a": [true]});
        assert_eq!(changed.unwrap(), expected);
        let removed = edited(original(), |shown| {
            let login = shown["login"].as_object_mut().unwrap();
            login.shift_remove("password");
            shown.as_object_mut().unwrap().shift_remove("list");
        });
        let login = json!({"user": "ann", "token": {"key": "a"}});
        let rest = json!({"to": "bob", "login": login, "plain": [1, 2]});
        assert_eq!(removed.unwrap(), rest);
    }

    #[test]
    fn redacted_members_cannot_get_other_values() {
        type Edit = fn(&mut Value);
        let edits: [(Edit, &str); 8] = [
            (
                |shown| shown["login"]["password"] = json!("x"),
                "/login/password",
            ),
            (
                |shown| shown["login"]["password"] = Value::Null,
                "/login/password",
            ),
            (
                |shown| shown["login"]["token"]["key"] = json!("b"),
                "/login/token",
            ),
            (|shown| shown["password"] = json!("x"), "/password"),
            (
                |shown| shown["new"] = json!([{"a/b": {"Token": 1}}]),
                "/new/0/a~1b/Token",
            ),
            // The values of a list have no names: an item could get the secret of another item.
            (
                |shown| shown["list"].as_array_mut().unwrap().swap(0, 1),
                "/list/0/secret",
            ),
            (
                |shown| drop(shown["list"].as_array_mut().unwrap().remove(0)),
                "/list/0/secret",
            ),
            (
                |shown| shown["plain"] = shown["list"].take(),
                "/plain/0/secret",
            ),
        ];
        for (edit, pointer) in edits {
            let original = json!({"login": original()["login"], "plain": [],
                "list": [{"secret": "1", "n": 1}, {"secret": "2", "n": 2}]});
            assert_eq!(edited(original, edit), Err(pointer.to_owned()));
        }
    }
}
