use std::collections::BTreeSet;
use std::ffi::OsString;

use serde::Deserialize;
use toml::{Table, Value};

use super::environment::{PILLION_PREFIX, VARIABLE_PREFIX, has_prefix};
use super::{Config, ConfigError, builtins, network_tools};

/// Maximum edit distance up to which an unknown variable is regarded as a misspelled
/// `PILLION_CONFIG` or `PILLION_SOCKET`.
const MAX_TYPO_DISTANCE: usize = 2;

/// The variables of the command line, the PHP library and the Laravel package. Any other variable
/// that begins with `PILLION_` has no effect, unless the configuration names the variable.
const KNOWN_VARIABLES: [&str; 16] = [
    "PILLION_CONFIG",
    "PILLION_SOCKET",
    // The Laravel package reads the following variables in php-ext/laravel/config/pillion.php.
    "PILLION_APPROVALS",
    "PILLION_APPROVALS_CONNECTION",
    "PILLION_APPROVALS_DRIVER",
    "PILLION_APPROVALS_STORE",
    "PILLION_CACHE_STORE",
    "PILLION_CHAT_IN",
    "PILLION_CHAT_MODEL",
    "PILLION_CONSOLE_DOMAIN",
    "PILLION_CONSOLE_PATH",
    "PILLION_LOG_CHANNEL",
    "PILLION_LOG_LEVEL",
    // scripts/env and php-examples read the following variables.
    "PILLION_CACHE",
    "PILLION_EXTENSION",
    "PILLION_ROOT",
];

/// Returns the variables that begin with `PILLION_` and that neither Pillion nor the configuration
/// knows.
///
/// # Errors
/// [`ConfigError::MisspelledVariable`] for a name that is probably meant to set a key or to name
/// the configuration: the setting would otherwise silently have no effect, although it may restrict
/// access.
pub(super) fn find_unknown(
    variables: &[(OsString, OsString)],
    table: &Table,
) -> Result<Vec<String>, ConfigError> {
    let mut texts = BTreeSet::new();
    table
        .values()
        .for_each(|value| collect_texts(value, &mut texts));
    let mut unknown_names = Vec::new();
    for (os_name, _) in variables {
        let name = os_name.to_string_lossy();
        let has_pillion_prefix = has_prefix(&name, PILLION_PREFIX);
        let has_key_prefix = name.starts_with(VARIABLE_PREFIX);
        if !has_pillion_prefix
            || has_key_prefix
            || KNOWN_VARIABLES.contains(&&*name)
            || texts.contains(&*name)
        {
            continue;
        }
        let variable = name.clone().into_owned();
        if is_similar_to_key(&name[PILLION_PREFIX.len()..]) {
            return Err(ConfigError::MisspelledVariable { variable });
        }
        let mut main_names = KNOWN_VARIABLES[..2].iter();
        if let Some(similar_name) = main_names.find(|known_name| is_similar(&name, known_name)) {
            return Err(ConfigError::UnknownVariable {
                variable,
                similar_name,
            });
        }
        unknown_names.push(variable);
    }
    unknown_names.sort();
    Ok(unknown_names)
}

/// Returns whether `name` is probably a typo of `known_name`, or begins with `known_name`.
fn is_similar(name: &str, known_name: &str) -> bool {
    let upper_name = name.to_ascii_uppercase();
    upper_name.starts_with(known_name)
        || strsim::osa_distance(&upper_name, known_name) <= MAX_TYPO_DISTANCE
}

/// Returns whether the name of a variable, without its prefix, is the path of a key with `_`
/// instead of `__` between the parts.
fn is_similar_to_key(name: &str) -> bool {
    let lower_name = name.to_ascii_lowercase();
    lower_name.match_indices('_').any(|(index, _)| {
        let (section, rest) = (&lower_name[..index], &lower_name[index + 1..]);
        if section == "tools" {
            // The tool's name may itself contain `_`, so each `_` is tried as the end of the name.
            let mut ends = rest.match_indices('_');
            return ends.any(|(index, _)| list_prefixes(&rest[index + 1..]).any(is_key_of_tool));
        }
        list_prefixes(rest).any(|key| is_known_key([section, key]))
    })
}

/// Returns the beginnings of the name up to each `_`, and the whole name.
fn list_prefixes(name: &str) -> impl Iterator<Item = &str> {
    let lengths = name.match_indices('_').map(|(index, _)| index);
    lengths.chain([name.len()]).map(|length| &name[..length])
}

fn is_key_of_tool(key: &str) -> bool {
    let tool_names = network_tools::TOOL_NAMES.iter().chain(&["get_time"]);
    let mut known_keys = tool_names.flat_map(|tool| builtins::list_extra_keys(tool));
    known_keys.any(|extra_key| *extra_key == key) || is_known_key(["tools", "x", key])
}

/// Returns whether a key with this path is valid in a configuration.
fn is_known_key<const N: usize>(names: [&str; N]) -> bool {
    let nest = |value, name: &str| Value::Table(Table::from_iter([(name.to_owned(), value)]));
    let value = names.into_iter().rev().fold(Value::Integer(0), nest);
    let error = Config::deserialize(value).err();
    error.is_none_or(|error| !error.message().starts_with("unknown field"))
}

fn collect_texts<'a>(value: &'a Value, texts: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => {
            texts.insert(text);
        }
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Table(table) => table.values().for_each(|value| collect_texts(value, texts)),
        _ => {}
    }
}
