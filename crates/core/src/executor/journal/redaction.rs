use std::collections::BTreeSet;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::executor::output::truncate;

/// What stands where something was taken out.
const REDACTED: &str = "[redacted]";

/// The longest text of a failure that is recorded, in bytes.
const MOST_OF_AN_ERROR: usize = 4 * 1024;

/// What is recorded of arguments and results (requirement L1).
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
    /// Members whose value is not recorded, wherever they stand, in any letter case. Default:
    /// the usual names of credentials.
    pub keys: BTreeSet<String>,
    /// Whether arguments are recorded. Default true.
    pub arguments: bool,
    /// Whether results are recorded, and what tools say when they fail. Default true.
    pub results: bool,
    /// The longest arguments, and the longest result, that are recorded, as JSON, in bytes; of
    /// longer ones only their length is. Of what went wrong the beginning is, 4 KiB at most.
    /// Default 64 KiB.
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
    /// The arguments of a call as they are recorded; a string is taken for JSON, as the
    /// executor does, and is not repeated when it is none.
    #[must_use]
    pub fn arguments(&self, arguments: &Value) -> String {
        if !self.arguments {
            return json!(REDACTED).to_string();
        }
        match arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(parsed) => self.text(&parsed),
                Err(_) => json!({ "unreadable_bytes": text.len() }).to_string(),
            },
            other => self.text(other),
        }
    }

    /// The result of a call as it is recorded; none where there is none.
    #[must_use]
    pub fn result(&self, result: &Value) -> Option<String> {
        match result {
            Value::Null => None,
            _ if !self.results => Some(json!(REDACTED).to_string()),
            result => Some(self.text(result)),
        }
    }

    /// What went wrong as it is recorded: its beginning, where it is long. What the tool said
    /// (`is_of_tool`) is part of its result.
    #[must_use]
    pub(super) fn error(&self, error: &str, is_of_tool: bool) -> String {
        if is_of_tool && !self.results {
            return REDACTED.to_owned();
        }
        let mut text = match serde_json::from_str(error) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => self.text(&value),
            _ => error.to_owned(),
        };
        let (bytes, most) = (text.len(), MOST_OF_AN_ERROR.min(self.max_bytes));
        if bytes > most {
            truncate(&mut text, most);
            text += &format!(" [the beginning of {bytes} bytes]");
        }
        text
    }

    /// A value as somebody may see it who has to decide on it: whole, but for the members whose
    /// value is not recorded.
    #[must_use]
    pub fn shown(&self, value: &Value) -> Value {
        serde_json::to_value(Redacted(self, value)).unwrap_or_default()
    }

    fn text(&self, value: &Value) -> String {
        let text = serde_json::to_string(&Redacted(self, value)).unwrap_or_default();
        if text.len() <= self.max_bytes {
            return text;
        }
        json!({ "omitted_bytes": text.len() }).to_string()
    }

    fn hides(&self, key: &str) -> bool {
        let mut hidden = self.keys.iter();
        hidden.any(|hidden| hidden.eq_ignore_ascii_case(key))
    }
}

/// A value without what is not to be seen.
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
            plain => plain.serialize(serializer),
        }
    }
}
