use std::collections::BTreeMap;
use std::ffi::OsString;

use toml::{Table, Value};

use super::{ConfigError, KeyPath};

/// Prefix of the variables that set a configuration key.
const PREFIX: &str = "PILLION__";

/// The variable that set each key.
pub(super) type Origins = BTreeMap<KeyPath, String>;

/// Sets the keys that environment variables name, and returns the variable of each key.
///
/// # Errors
/// [`ConfigError::Variable`] for a value that is not UTF-8, a timeout that is not a positive
/// number, or a key below a value that is not a table.
pub(super) fn overlay(
    table: &mut Table,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Origins, ConfigError> {
    let mut named = BTreeMap::new();
    for (variable, value) in variables {
        let Ok(variable) = variable.into_string() else {
            continue;
        };
        if let Some(setting) = Setting::of(&variable) {
            named.insert((setting.precedence, variable), (setting, value));
        }
    }
    let mut origins = Origins::new();
    for ((_, variable), (setting, value)) in named {
        let key = setting.key;
        let error = |key: &KeyPath, message: &str| ConfigError::Variable {
            variable: variable.clone(),
            key: key.clone(),
            message: message.to_owned(),
        };
        let value = value
            .into_string()
            .map_err(|_| error(&key, "the value is not valid UTF-8"))?;
        if value.is_empty() {
            continue;
        }
        let value = (setting.read)(&value).map_err(|message| error(&key, message))?;
        if !insert(table, &setting.names, value) {
            return Err(error(&key, "a part of this key holds a value, not a table"));
        }
        origins.insert(key, variable);
    }
    Ok(origins)
}

/// The key that a variable sets, and how its value is parsed.
struct Setting {
    /// Variables apply in this order; later ones override earlier ones.
    precedence: u8,
    names: Vec<String>,
    key: KeyPath,
    read: fn(&str) -> Result<Value, &'static str>,
}

impl Setting {
    fn of(variable: &str) -> Option<Self> {
        let (precedence, names, read): (_, Vec<String>, fn(&str) -> _) = match variable {
            "MCP_MAX_CONCURRENT_TOOLS" => (0, names(&["executor", "max_concurrent"]), toml_or_text),
            "MCP_CALCULATOR_TIMEOUT" => (0, names(&["tools", "calculator", "timeout_ms"]), seconds),
            "MCP_SEARCH_TIMEOUT" => (0, names(&["tools", "web_search", "timeout_ms"]), seconds),
            "LOG_LEVEL" => (0, names(&["log", "filter"]), text),
            _ => {
                let key = variable.strip_prefix(PREFIX)?;
                let names = key.split("__").map(str::to_ascii_lowercase).collect();
                (1, names, toml_or_text)
            }
        };
        let key = KeyPath::from_names(names.iter().map(String::as_str));
        Some(Self {
            precedence,
            names,
            key,
            read,
        })
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn text(value: &str) -> Result<Value, &'static str> {
    Ok(Value::String(value.to_owned()))
}

fn toml_or_text(value: &str) -> Result<Value, &'static str> {
    match value.trim().parse::<Value>() {
        // Dates are kept as text: no key has TOML's date type.
        Ok(Value::Datetime(_)) | Err(_) => text(value),
        Ok(parsed) => Ok(parsed),
    }
}

fn seconds(value: &str) -> Result<Value, &'static str> {
    let millis = value.trim().parse::<f64>().map(|seconds| seconds * 1000.0);
    match millis {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        Ok(millis) if (1.0..=1e12).contains(&millis) => Ok(Value::Integer(millis.round() as i64)),
        _ => Err("expected a number of seconds above zero"),
    }
}

/// Sets a value, creating the tables above it. Returns false if a part of the path is not a table.
fn insert(table: &mut Table, names: &[String], value: Value) -> bool {
    let Some((last, above)) = names.split_last() else {
        return false;
    };
    let mut table = table;
    for name in above {
        let below = table
            .entry(name.clone())
            .or_insert_with(|| Value::Table(Table::new()));
        match below {
            Value::Table(below) => table = below,
            _ => return false,
        }
    }
    table.insert(last.clone(), value);
    true
}
