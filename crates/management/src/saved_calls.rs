//! Saved calls: tools with arguments, which a person can run again.
//!
//! The calls are documents of the store's pack interface, under a name that no pack has. A person
//! sees only the calls that this person has saved.

use pillion_core::digest::sha256_hex;
use pillion_core::store::Timestamp;
use pillion_core::tool::JsonObject;
use pillion_gateway::Gateway;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::timestamp::format_timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{CONFLICT, INVALID_INPUT, NOT_FOUND, Result, TOO_LARGE, route_error};
use crate::store::require_store;

/// Maximum number of saved calls of one person.
pub const MAX_SAVED_CALLS: u32 = 100;

/// Maximum size of the arguments of a saved call, as JSON, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 64 * 1024;

/// Maximum length of the name of a saved call, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// The value of a redacted member in the call log.
const REDACTED: &str = "[redacted]";

route_error! {
    /// The reason why a call is not saved or found.
    #[derive(Debug, thiserror::Error)]
    enum SavedCallError {
        #[error("There is no saved call '{}'", truncate_input(name))]
        Unknown { name: String } => NOT_FOUND,
        #[error("The name of a saved call must have 1 to 100 characters, without control characters")]
        InvalidName => INVALID_INPUT,
        #[error("The arguments of a saved call may have at most 64 KiB as JSON")]
        TooLarge => TOO_LARGE,
        #[error(
            "The call log records no arguments of this call (call_log.redact), so the call cannot \
             be saved"
        )]
        NotRecorded => CONFLICT,
        #[error("You already have 100 saved calls: remove one first")]
        TooMany => CONFLICT,
    }
}

/// A saved call.
#[derive(Debug, Clone)]
pub struct SavedCall {
    /// The name under which the person has saved the call.
    pub name: String,
    /// The name of the tool.
    pub tool: String,
    /// The user on whose behalf the call runs; `None` for the person who runs the call.
    pub user: Option<String>,
    /// The arguments as JSON, redacted like those in the call log.
    pub arguments: String,
    /// The time at which the call was saved, in RFC 3339.
    pub saved_at: String,
}

/// A saved call as stored.
#[derive(Debug, Serialize, Deserialize)]
struct StoredCall {
    tool: String,
    #[serde(default)]
    user: Option<String>,
    arguments: String,
    saved_at: String,
}

impl StoredCall {
    fn into_saved_call(self, name: String) -> SavedCall {
        SavedCall {
            name,
            tool: self.tool,
            user: self.user,
            arguments: self.arguments,
            saved_at: self.saved_at,
        }
    }
}

/// A call to save.
#[derive(Debug)]
pub struct NewSavedCall<'a> {
    /// The name under which the call is saved. Replaces a call with this name.
    pub name: &'a str,
    /// The name of the tool.
    pub tool: &'a str,
    /// The user on whose behalf the call runs.
    pub user: Option<&'a str>,
    /// The arguments of the call.
    pub arguments: JsonObject,
}

/// Returns the name under which the store contains the calls of a person. The name contains `/`, so
/// no pack has the same name.
fn collection_name(grant: &AccessGrant, person: Option<&str>) -> String {
    let owner = json!([grant.principal(), person]).to_string();
    format!("console/saved-calls/{}", sha256_hex(&owner))
}

/// Returns the calls that a person has saved, ordered by name. `person` is the name of the person
/// who uses `grant`, if known.
///
/// # Errors
/// The store cannot be read.
pub async fn list(
    gateway: &Gateway,
    grant: &AccessGrant,
    person: Option<&str>,
) -> Result<Vec<SavedCall>> {
    let collection = collection_name(grant, person);
    let documents = require_store(gateway)?
        .documents(&collection, "", None, MAX_SAVED_CALLS)
        .await?;
    let calls = documents.into_iter().filter_map(|(name, json)| {
        let stored_call: StoredCall = serde_json::from_str(&json).ok()?;
        Some(stored_call.into_saved_call(name))
    });
    Ok(calls.collect())
}

/// Returns the call that a person has saved under a name.
///
/// # Errors
/// There is no such call, or the store cannot be read.
pub async fn find(
    gateway: &Gateway,
    grant: &AccessGrant,
    person: Option<&str>,
    name: &str,
) -> Result<SavedCall> {
    let collection = collection_name(grant, person);
    let json = require_store(gateway)?
        .find_document(&collection, name)
        .await?;
    let stored_call = json.and_then(|json| serde_json::from_str::<StoredCall>(&json).ok());
    let unknown_error = || SavedCallError::Unknown {
        name: name.to_owned(),
    };
    let call = stored_call.ok_or_else(unknown_error)?;
    Ok(call.into_saved_call(name.to_owned()))
}

/// Saves a call. Its arguments are redacted like those in the call log.
///
/// # Errors
/// The name is invalid; the arguments are too large or must not be recorded; the person has the
/// maximum number of saved calls; the store cannot be written.
pub async fn save(
    gateway: &Gateway,
    grant: &AccessGrant,
    person: Option<&str>,
    call: NewSavedCall<'_>,
) -> Result<()> {
    let name = call.name.trim();
    let is_valid = (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    if !is_valid || name.chars().any(char::is_control) {
        return Err(SavedCallError::InvalidName.into());
    }
    let arguments = Value::Object(call.arguments);
    let argument_bytes = arguments.to_string().len();
    if argument_bytes > MAX_ARGUMENT_BYTES {
        return Err(SavedCallError::TooLarge.into());
    }
    let redaction = gateway.approvals().redaction();
    if !redaction.arguments || argument_bytes > redaction.max_bytes {
        return Err(SavedCallError::NotRecorded.into());
    }
    let stored_call = StoredCall {
        tool: call.tool.to_owned(),
        user: call.user.map(str::to_owned),
        arguments: redaction.arguments(&arguments),
        saved_at: format_timestamp(Timestamp::now()),
    };
    let store = require_store(gateway)?;
    let collection = collection_name(grant, person);
    let json = json!(stored_call).to_string();
    let outcome = store
        .put_document(&collection, name, &json, Some(MAX_SAVED_CALLS))
        .await;
    match outcome {
        Ok(_) => Ok(()),
        Err(error) if error.is_full() => Err(SavedCallError::TooMany.into()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a call that a person has saved. Succeeds if there is none.
///
/// # Errors
/// The store cannot be written.
pub async fn remove(
    gateway: &Gateway,
    grant: &AccessGrant,
    person: Option<&str>,
    name: &str,
) -> Result<()> {
    let collection = collection_name(grant, person);
    require_store(gateway)?
        .remove_document(&collection, name)
        .await?;
    Ok(())
}

/// Recorded arguments with which a call can run again.
#[derive(Debug, PartialEq, Eq)]
pub struct ReusableArguments {
    /// The arguments without the redacted values.
    pub arguments: JsonObject,
    /// Whether all values were recorded.
    pub is_complete: bool,
}

impl ReusableArguments {
    /// Reads arguments from the call log or from a saved call.
    #[must_use]
    pub fn read(recorded_json: &str) -> Self {
        let Ok(Value::Object(mut arguments)) = serde_json::from_str(recorded_json) else {
            return Self {
                arguments: JsonObject::new(),
                is_complete: false,
            };
        };
        // The call log records only the length of large and of unreadable arguments.
        let length_members = ["omitted_bytes", "unreadable_bytes"];
        let is_length = arguments.len() == 1
            && length_members
                .iter()
                .any(|name| arguments.get(*name).is_some_and(Value::is_u64));
        if is_length {
            arguments.clear();
        }
        let is_complete = remove_redacted_members(&mut arguments) && !is_length;
        Self {
            arguments,
            is_complete,
        }
    }
}

/// Removes the redacted members of an object, at any depth. Returns whether there were none.
fn remove_redacted_members(members: &mut JsonObject) -> bool {
    let member_count = members.len();
    members.retain(|_, value| *value != REDACTED);
    let mut is_complete = members.len() == member_count;
    for value in members.values_mut() {
        is_complete &= remove_redacted_values(value);
    }
    is_complete
}

fn remove_redacted_values(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => remove_redacted_members(members),
        Value::Array(items) => {
            let mut is_complete = true;
            for item in items {
                is_complete &= remove_redacted_values(item);
            }
            is_complete
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use pillion_core::executor::Redaction;

    use super::*;

    fn read(recorded_json: &str) -> (Value, bool) {
        let reusable = ReusableArguments::read(recorded_json);
        (Value::Object(reusable.arguments), reusable.is_complete)
    }

    #[test]
    fn redacted_values_are_not_reused() {
        let arguments = json!({"a": 1, "token": "hunter2", "b": [{"password": {"x": 1}, "c": 2}]});
        let recorded_json = Redaction::default().arguments(&arguments);
        assert_eq!(
            read(&recorded_json),
            (json!({"a": 1, "b": [{"c": 2}]}), false)
        );
        assert_eq!(
            read(r#"{"a":{"b":null}}"#),
            (json!({"a": {"b": null}}), true)
        );
        for recorded_json in [r#""[redacted]""#, r#"{"omitted_bytes":70000}"#, "7", "{"] {
            assert_eq!(read(recorded_json), (json!({}), false), "{recorded_json}");
        }
    }

    #[test]
    fn the_calls_of_two_persons_are_separate() {
        let grant = AccessGrant::for_local_user(1000);
        let names = [None, Some("ada"), Some("bob")].map(|person| collection_name(&grant, person));
        assert!(names[0] != names[1] && names[1] != names[2]);
        assert!(names.iter().all(|name| name.len() < 512));
    }
}
