use std::collections::BTreeSet;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::executor::output::truncate;
use crate::json_values;
use crate::tool::parse_arguments;

/// The text that replaces a redacted value.
pub(super) const REDACTED: &str = "[redacted]";

/// Maximum size of a recorded error message, in bytes.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// Determines how much of arguments and results is recorded.
///
/// ```
/// use pillion_core::executor::Redaction;
/// use serde_json::json;
/// let redaction = Redaction::default();
/// let arguments = json!({"user": "alice", "login": {"Password": "hunter2"}});
/// let recorded = redaction.arguments(&arguments);
/// assert_eq!(recorded, r#"{"user":"alice","login":{"Password":"[redacted]"}}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Redaction {
    /// Object keys whose values are redacted, at any depth, compared case-insensitively. Default:
    /// the usual names of credentials.
    pub keys: BTreeSet<String>,
    /// Whether arguments are recorded. Default true.
    pub arguments: bool,
    /// Whether results and the error messages of tools are recorded. Default true.
    pub results: bool,
    /// Maximum size of the recorded arguments and of the recorded result, as JSON, in bytes. For a
    /// larger value, only the length is recorded. Error messages are cut to this maximum, or to 4
    /// KiB if that is less. Default 64 KiB.
    pub max_bytes: usize,
}

impl Default for Redaction {
    fn default() -> Self {
        let keys = [
            "access_token",
            "api_key",
            "apikey",
            "authorization",
            "client_secret",
            "cookie",
            "credential",
            "credentials",
            "passphrase",
            "passwd",
            "password",
            "private_key",
            "refresh_token",
            "secret",
            "set-cookie",
            "token",
            "x-api-key",
        ];
        Self {
            keys: keys.map(str::to_owned).into(),
            arguments: true,
            results: true,
            max_bytes: 64 * 1024,
        }
    }
}

impl Redaction {
    /// Returns the recorded form of a call's arguments. A string is parsed as JSON, like in the
    /// executor. If the string is not valid JSON, only its length is recorded.
    #[must_use]
    pub fn arguments(&self, arguments: &Value) -> String {
        if !self.arguments {
            return json!(REDACTED).to_string();
        }
        match arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => match json_values::from_str::<Value>(text) {
                // The arguments were encoded as JSON twice, so the keys to redact are in the inner
                // text.
                Ok(Value::String(inner)) => match parse_arguments(&inner) {
                    Ok(parsed) => self.text(&parsed),
                    Err(_) => json!({ "unreadable_bytes": inner.len() }).to_string(),
                },
                Ok(parsed) => self.text(&parsed),
                Err(_) => json!({ "unreadable_bytes": text.len() }).to_string(),
            },
            value => self.text(value),
        }
    }

    /// Returns the recorded form of a call's result; `None` if the result is null.
    #[must_use]
    pub fn result(&self, result: &Value) -> Option<String> {
        match result {
            Value::Null => None,
            _ if !self.results => Some(json!(REDACTED).to_string()),
            result => Some(self.text(result)),
        }
    }

    /// Returns the recorded form of an error message, cut if it is too long. A message of the tool
    /// (`is_tool_message`) is redacted like a result.
    #[must_use]
    pub(super) fn error(&self, error: &str, is_tool_message: bool) -> String {
        if is_tool_message && !self.results {
            return REDACTED.to_owned();
        }
        let mut text = match json_values::from_str(error) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => self.text(&value),
            _ => error.to_owned(),
        };
        let (bytes, max_bytes) = (text.len(), MAX_ERROR_BYTES.min(self.max_bytes));
        if bytes > max_bytes {
            truncate(&mut text, max_bytes);
            text += &format!(" [truncated: {bytes} bytes in total]");
        }
        text
    }

    /// Returns a value formatted for display to an approver. In members whose values are redacted,
    /// each scalar is replaced by its type and length. Objects and arrays in such members stay,
    /// because a tool uses their structure whatever the member is named.
    ///
    /// ```
    /// use pillion_core::executor::Redaction;
    /// use serde_json::json;
    /// let arguments = json!({"to": "bob", "token": {"all": true, "key": "hunter2"}});
    /// let redacted = Redaction::default().redact(&arguments);
    /// assert_eq!(redacted, json!({"to": "bob", "token": {
    ///     "all": "[redacted: boolean]", "key": "[redacted: string, 7 characters]"}}));
    /// ```
    #[must_use]
    pub fn redact(&self, value: &Value) -> Value {
        self.describe(value, false)
    }

    fn describe(&self, value: &Value, is_hidden: bool) -> Value {
        match value {
            Value::Array(items) => {
                let items = items.iter();
                items.map(|item| self.describe(item, is_hidden)).collect()
            }
            Value::Object(members) => {
                let members = members.iter().map(|(key, member)| {
                    let is_hidden = is_hidden || self.hides(key);
                    (key.clone(), self.describe(member, is_hidden))
                });
                Value::Object(members.collect())
            }
            scalar if !is_hidden => scalar.clone(),
            Value::Null => Value::Null,
            Value::Bool(_) => "[redacted: boolean]".into(),
            Value::Number(number) => redacted_text("number", &number.to_string()),
            Value::String(text) => redacted_text("string", text),
        }
    }

    fn text(&self, value: &Value) -> String {
        let text = serde_json::to_string(&Redacted(self, value)).unwrap_or_default();
        if text.len() <= self.max_bytes {
            return text;
        }
        json!({ "omitted_bytes": text.len() }).to_string()
    }

    /// Returns whether the value of an object's member with this name is redacted.
    #[must_use]
    pub fn hides(&self, key: &str) -> bool {
        let mut redacted_keys = self.keys.iter();
        redacted_keys.any(|redacted_key| redacted_key.eq_ignore_ascii_case(key))
    }
}

/// Returns the text that an approver sees in place of a redacted scalar.
fn redacted_text(kind: &str, text: &str) -> Value {
    format!("[redacted: {kind}, {} characters]", text.chars().count()).into()
}

/// Serializes a value with its redacted members replaced.
struct Redacted<'a>(&'a Redaction, &'a Value);

impl Serialize for Redacted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(redaction, value) = self;
        match value {
            Value::Array(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    sequence.serialize_element(&Redacted(redaction, item))?;
                }
                sequence.end()
            }
            Value::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, member) in members {
                    if redaction.hides(key) {
                        map.serialize_entry(key, REDACTED)?;
                    } else {
                        map.serialize_entry(key, &Redacted(redaction, member))?;
                    }
                }
                map.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}
