use std::collections::BTreeMap;
use std::ffi::OsString;

use toml::{Table, Value};

use super::{ConfigError, KeyPath, KeyStep};

/// Prefix of the variables that set a configuration key.
pub(super) const VARIABLE_PREFIX: &str = "PILLION__";

/// Prefix of all variables of Pillion.
pub(super) const PILLION_PREFIX: &str = "PILLION_";

/// For each key that an environment variable set, the name of the variable.
pub(super) type KeyVariables = BTreeMap<KeyPath, String>;

/// Sets the keys that environment variables name. Returns the name of the variable that set each
/// key.
///
/// # Errors
/// - [`ConfigError::Variable`]: the value of a variable is invalid, two variables set the same key,
///   or the key is below a value that is not a table.
/// - [`ConfigError::MisspelledVariable`]: a variable is probably meant to set a key but has no
///   effect.
pub(super) fn overlay(
    table: &mut Table,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<KeyVariables, ConfigError> {
    let mut settings = BTreeMap::new();
    for (name, value) in variables {
        let variable = match name.into_string() {
            Ok(variable) if is_misspelled(&variable) => {
                return Err(ConfigError::MisspelledVariable { variable });
            }
            Ok(variable) => variable,
            Err(name) => {
                let variable = name.to_string_lossy().into_owned();
                if has_prefix(&variable, VARIABLE_PREFIX) {
                    return Err(ConfigError::MisspelledVariable { variable });
                }
                continue;
            }
        };
        for setting in VariableSetting::for_variable(&variable) {
            let sort_key = (setting.precedence, variable.clone(), setting.key.clone());
            settings.insert(sort_key, (setting, value.clone()));
        }
    }
    let mut origins = KeyVariables::new();
    for ((_, variable, _), (setting, value)) in settings {
        let key = setting.key;
        let variable_error = |key: &KeyPath, message: &str| ConfigError::Variable {
            variable: variable.clone(),
            key: key.clone(),
            message: message.to_owned(),
        };
        let utf8_error = |_| variable_error(&key, "the value is not valid UTF-8");
        let text = value.into_string().map_err(utf8_error)?;
        if text.is_empty() {
            // An empty value is an error, because an operator who assigns an empty value does not
            // expect the default.
            if setting.precedence == KEY_PRECEDENCE {
                let message = "the variable is empty: unset it, or set a value";
                return Err(variable_error(&key, message));
            }
            continue;
        }
        let toml_value = (setting.parse)(&text).map_err(|message| variable_error(&key, message))?;
        if toml_value.as_table().is_some_and(Table::is_empty) {
            let message = "the value is a table without keys: set at least one key in it";
            return Err(variable_error(&key, message));
        }
        let names = find_names_in_table(table, &setting.names)
            .map_err(|message| variable_error(&key, message))?;
        let table_key = KeyPath::from_names(names.iter().map(String::as_str));
        let previous_variable = origins.get(&table_key);
        if let Some(name) = previous_variable.filter(|name| name.starts_with(VARIABLE_PREFIX)) {
            let message = format!(
                "the variable {name}, whose name differs only in case, also sets this key: unset \
                 one of the two variables"
            );
            return Err(variable_error(&table_key, &message));
        }
        if !insert_value(table, &names, toml_value) {
            let message = "a part of the key's path is a value, not a table";
            return Err(variable_error(&table_key, message));
        }
        origins.insert(table_key, variable);
    }
    Ok(origins)
}

/// Precedence of environment variables that other programs also use, such as `LOG_LEVEL`.
const ALIAS_PRECEDENCE: u8 = 0;

/// Precedence of environment variables whose name is the path of a key.
const KEY_PRECEDENCE: u8 = 1;

/// Returns whether a name starts with a prefix, ignoring case.
pub(super) fn has_prefix(name: &str, prefix: &str) -> bool {
    let name_start = name.get(..prefix.len());
    name_start.is_some_and(|name_start| name_start.eq_ignore_ascii_case(prefix))
}

/// Returns whether a variable is probably meant to set a key but has no effect, such as
/// `PILLION_LOG__FORMAT` or `pillion__log__format`.
fn is_misspelled(variable: &str) -> bool {
    has_prefix(variable, PILLION_PREFIX)
        && variable[PILLION_PREFIX.len() - 1..].contains("__")
        && !variable.starts_with(VARIABLE_PREFIX)
}

/// The key that an environment variable sets, and how its value is parsed.
struct VariableSetting {
    /// Variables apply in ascending order of precedence, so that a variable of higher
    /// precedence overrides the others.
    precedence: u8,
    names: Vec<String>,
    key: KeyPath,
    parse: ParseValue,
}

/// Parses the value of a variable, or returns why the value is invalid.
type ParseValue = fn(&str) -> Result<Value, &'static str>;

impl VariableSetting {
    /// Returns the settings of the configuration that an environment variable sets.
    fn for_variable(variable: &str) -> Vec<Self> {
        let timeout_setting =
            |tool: &str| Self::for_alias(&["tools", tool, "timeout_ms"], parse_seconds);
        match variable {
            // `MCP_MAX_CONCURRENT_TOOLS` limits all tools together. The variable also sets the
            // limit of each source, so that one source may use all slots.
            "MCP_MAX_CONCURRENT_TOOLS" => ["max_concurrent", "max_concurrent_total"]
                .map(|key| Self::for_alias(&["executor", key], parse_toml_or_text))
                .into(),
            "MCP_CALCULATOR_TIMEOUT" => vec![timeout_setting("calculator")],
            "MCP_SEARCH_TIMEOUT" => vec![timeout_setting("web_search")],
            "LOG_LEVEL" => vec![Self::for_alias(&["log", "filter"], parse_text)],
            _ => {
                let key = variable.strip_prefix(VARIABLE_PREFIX);
                let names = key.map(|key| key.split("__").map(str::to_ascii_lowercase).collect());
                let setting =
                    names.map(|names| Self::new(KEY_PRECEDENCE, names, parse_toml_or_text));
                Vec::from_iter(setting)
            }
        }
    }

    fn for_alias(key: &[&str], parse: ParseValue) -> Self {
        let names = key.iter().map(|&name| name.to_owned()).collect();
        Self::new(ALIAS_PRECEDENCE, names, parse)
    }

    fn new(precedence: u8, names: Vec<String>, parse: ParseValue) -> Self {
        let key = KeyPath::from_names(names.iter().map(String::as_str));
        Self {
            precedence,
            names,
            key,
            parse,
        }
    }
}

fn parse_text(value: &str) -> Result<Value, &'static str> {
    Ok(Value::String(value.to_owned()))
}

fn parse_toml_or_text(value: &str) -> Result<Value, &'static str> {
    match value.trim().parse::<Value>() {
        // A value that is a TOML date is read as text, because no key has TOML's date type.
        Ok(Value::Datetime(_)) | Err(_) => parse_text(value),
        Ok(toml_value) => Ok(toml_value),
    }
}

fn parse_seconds(value: &str) -> Result<Value, &'static str> {
    let millis = value.trim().parse::<f64>().map(|seconds| seconds * 1000.0);
    match millis {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        Ok(millis) if (1.0..=1e12).contains(&millis) => Ok(Value::Integer(millis.round() as i64)),
        _ => Err("expected a number of seconds above zero"),
    }
}

/// Returns the parts of a key's path in the spelling of the configuration file, if the file has the
/// key. The name of an environment variable does not show which letters of a tool's name are
/// capitals.
fn find_names_in_table(root: &Table, names: &[String]) -> Result<Vec<String>, &'static str> {
    let mut table = Some(root);
    let table_names = names.iter().map(|name| {
        let keys = table.into_iter().flat_map(Table::keys);
        let mut matching_keys = keys.filter(|key| key.eq_ignore_ascii_case(name));
        let table_name = match (matching_keys.next(), matching_keys.next()) {
            (Some(_), Some(_)) => {
                return Err(
                    "the file has this name more than once, in different case: set the key in \
                     the file",
                );
            }
            (key, _) => key.unwrap_or(name),
        };
        table = table.and_then(|table| table.get(table_name)?.as_table());
        Ok(table_name.clone())
    });
    table_names.collect()
}

/// Returns the names of the tools for which environment variables set keys, in lower case.
pub(super) fn list_tool_names(origins: &KeyVariables) -> impl Iterator<Item = String> {
    origins.keys().filter_map(|key| match key.steps() {
        [KeyStep::Name(section), KeyStep::Name(tool), ..] if section == "tools" => {
            Some(tool.to_ascii_lowercase())
        }
        _ => None,
    })
}

/// Sets the value at a path, and creates missing parent tables. If the value is a table, sets only
/// the keys of that table, and keeps the other keys that the file has at the path. Returns `false`
/// if a part of the path is not a table.
fn insert_value(root: &mut Table, names: &[String], value: Value) -> bool {
    let Some((last_name, parent_names)) = names.split_last() else {
        return false;
    };
    let mut table = root;
    for name in parent_names {
        let child_value = table.entry(name.clone()).or_insert(Table::new().into());
        match child_value {
            Value::Table(child_table) => table = child_table,
            _ => return false,
        }
    }
    match value {
        Value::Table(keys) => merge(table, last_name, keys),
        value => {
            table.insert(last_name.clone(), value);
            true
        }
    }
}

/// Sets `keys` in a section. Returns `false` if a key's value is a table in the section but not in
/// `keys`, or in `keys` but not in the section.
fn merge(table: &mut Table, section_name: &str, keys: Table) -> bool {
    let section_value = table.entry(section_name).or_insert(Table::new().into());
    let Value::Table(section) = section_value else {
        return false;
    };
    keys.into_iter().all(|(name, value)| match value {
        Value::Table(keys) => merge(section, &name, keys),
        value => {
            let old_value = section.insert(name, value);
            !old_value.is_some_and(|old_value| old_value.is_table())
        }
    })
}
