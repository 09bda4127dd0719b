use std::collections::BTreeMap;
use std::ffi::OsString;

use toml::{Table, Value};

use super::{ConfigError, Key, KeyPath};

/// Prefix of the variables that set a configuration key.
pub(super) const VARIABLE_PREFIX: &str = "PILLION__";

/// Prefix of all variables of Pillion.
pub(super) const PILLION_PREFIX: &str = "PILLION_";

/// The variable that set each key.
pub(super) type Origins = BTreeMap<KeyPath, String>;

/// Sets the keys that environment variables name, and returns the variable of each key.
///
/// # Errors
/// [`ConfigError::Variable`] for a value that is not UTF-8 or is empty, a timeout that is not a
/// positive number, or a key below a value that is not a table.
/// [`ConfigError::MisspeltVariable`] for a variable that looks like one for a key.
pub(super) fn overlay(
    table: &mut Table,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Origins, ConfigError> {
    let mut named = BTreeMap::new();
    for (variable, value) in variables {
        let variable = match variable.into_string() {
            Ok(variable) if is_misspelled(&variable) => {
                return Err(ConfigError::MisspeltVariable { variable });
            }
            Ok(variable) => variable,
            Err(variable) => {
                let shown = variable.to_string_lossy().into_owned();
                if has_prefix(&shown, VARIABLE_PREFIX) {
                    return Err(ConfigError::MisspeltVariable { variable: shown });
                }
                continue;
            }
        };
        for setting in Setting::for_variable(&variable) {
            let order = (setting.precedence, variable.clone(), setting.key.clone());
            named.insert(order, (setting, value.clone()));
        }
    }
    let mut origins = Origins::new();
    for ((_, variable, _), (setting, value)) in named {
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
            // An operator who assigns an empty value does not expect the default.
            if setting.precedence == KEY_PRECEDENCE {
                return Err(error(
                    &key,
                    "the variable is empty: unset it, or set a value",
                ));
            }
            continue;
        }
        let value = (setting.read)(&value).map_err(|message| error(&key, message))?;
        if value.as_table().is_some_and(Table::is_empty) {
            return Err(error(&key, "the table sets no key"));
        }
        let names = in_case_of(table, &setting.names).map_err(|message| error(&key, message))?;
        let key = KeyPath::from_names(names.iter().map(String::as_str));
        let other = origins.get(&key);
        if other.is_some_and(|other| other.starts_with(VARIABLE_PREFIX)) {
            return Err(error(
                &key,
                "another variable, which differs only in case, also sets this key",
            ));
        }
        if !insert(table, &names, value) {
            return Err(error(&key, "a part of this key is a value, not a table"));
        }
        origins.insert(key, variable);
    }
    Ok(origins)
}

/// Precedence of variables that other programs also use, such as `LOG_LEVEL`.
const ALIAS_PRECEDENCE: u8 = 0;

/// Precedence of variables that are named after a key.
const KEY_PRECEDENCE: u8 = 1;

/// Returns whether a name starts with a prefix, in upper or lower case.
pub(super) fn has_prefix(name: &str, prefix: &str) -> bool {
    let start = name.get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Returns whether a variable is probably meant to set a key but has no effect, such as
/// `PILLION_LOG__FORMAT` or `pillion__log__format`.
fn is_misspelled(variable: &str) -> bool {
    has_prefix(variable, PILLION_PREFIX)
        && variable[PILLION_PREFIX.len() - 1..].contains("__")
        && !variable.starts_with(VARIABLE_PREFIX)
}

/// The key that a variable sets, and how its value is parsed.
struct Setting {
    /// Variables apply in ascending order of precedence, so that later variables override earlier
    /// ones.
    precedence: u8,
    names: Vec<String>,
    key: KeyPath,
    read: fn(&str) -> Result<Value, &'static str>,
}

impl Setting {
    /// Returns the settings that a variable sets.
    fn for_variable(variable: &str) -> Vec<Self> {
        match variable {
            // The variable limits all tools together, so each source may use as many slots as the
            // total.
            "MCP_MAX_CONCURRENT_TOOLS" => ["max_concurrent", "max_concurrent_total"]
                .map(|key| Self::alias(&["executor", key], toml_or_text))
                .into(),
            "MCP_CALCULATOR_TIMEOUT" => {
                vec![Self::alias(&["tools", "calculator", "timeout_ms"], seconds)]
            }
            "MCP_SEARCH_TIMEOUT" => {
                vec![Self::alias(&["tools", "web_search", "timeout_ms"], seconds)]
            }
            "LOG_LEVEL" => vec![Self::alias(&["log", "filter"], text)],
            _ => {
                let key = variable.strip_prefix(VARIABLE_PREFIX);
                let names = key.map(|key| key.split("__").map(str::to_ascii_lowercase).collect());
                names
                    .map(|names| Self::new(KEY_PRECEDENCE, names, toml_or_text))
                    .into_iter()
                    .collect()
            }
        }
    }

    fn alias(names: &[&str], read: fn(&str) -> Result<Value, &'static str>) -> Self {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Self::new(ALIAS_PRECEDENCE, names, read)
    }

    fn new(
        precedence: u8,
        names: Vec<String>,
        read: fn(&str) -> Result<Value, &'static str>,
    ) -> Self {
        let key = KeyPath::from_names(names.iter().map(String::as_str));
        Self {
            precedence,
            names,
            key,
            read,
        }
    }
}

fn text(value: &str) -> Result<Value, &'static str> {
    Ok(Value::String(value.to_owned()))
}

fn toml_or_text(value: &str) -> Result<Value, &'static str> {
    match value.trim().parse::<Value>() {
        // Dates are read as text, because no key has TOML's date type.
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

/// Returns the names of a key as the table spells them. A variable cannot express capital letters,
/// which tool names may have.
fn in_case_of(table: &Table, names: &[String]) -> Result<Vec<String>, &'static str> {
    let mut table = Some(table);
    let names = names.iter().map(|name| {
        let keys = table.into_iter().flat_map(Table::keys);
        let mut alike = keys.filter(|key| key.eq_ignore_ascii_case(name));
        let found = match (alike.next(), alike.next()) {
            (Some(_), Some(_)) => {
                return Err(
                    "the file has this name more than once, in different case: set the key in \
                     the file",
                );
            }
            (found, _) => found.unwrap_or(name),
        };
        table = table.and_then(|table| table.get(found)?.as_table());
        Ok(found.clone())
    });
    names.collect()
}

/// Returns the names of the tools that variables set, in lower case.
pub(super) fn tools_of(origins: &Origins) -> impl Iterator<Item = String> {
    origins.keys().filter_map(|key| match key.keys() {
        [Key::Name(section), Key::Name(tool), ..] if section == "tools" => {
            Some(tool.to_ascii_lowercase())
        }
        _ => None,
    })
}

/// Sets a value, and creates the tables above it. A table as value sets only the keys that it has;
/// other keys of the file remain. Returns `false` if a part of the path is not a table.
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
    match value {
        Value::Table(keys) => merge(table, last, keys),
        value => {
            table.insert(last.clone(), value);
            true
        }
    }
}

/// Sets the keys of a section. Returns `false` if a key is a table in only one of the two.
fn merge(table: &mut Table, section: &str, keys: Table) -> bool {
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(section) = section else {
        return false;
    };
    keys.into_iter().all(|(name, value)| match value {
        Value::Table(keys) => merge(section, &name, keys),
        value => {
            let old = section.insert(name, value);
            !old.is_some_and(|old| old.is_table())
        }
    })
}
