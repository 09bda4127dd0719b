use std::collections::BTreeSet;
use std::ffi::OsString;

use serde::Deserialize;
use toml::{Table, Value};

use super::environment::{PILLION_PREFIX, VARIABLE_PREFIX, has_prefix};
use super::{Config, ConfigError, builtins, network_tools};

/// Maximum edit distance at which an unknown name counts as a typo of `PILLION_CONFIG` or
/// `PILLION_SOCKET`.
const MAX_TYPO_DISTANCE: usize = 2;

/// The variables of the command line, the PHP library and the Laravel package. Any other variable
/// with the prefix has no effect, unless the configuration names it.
const KNOWN_VARIABLES: [&str; 14] = [
    "PILLION_CONFIG",
    "PILLION_SOCKET",
    // Variables of php-ext/laravel/config/pillion.php.
    "PILLION_APPROVALS",
    "PILLION_APPROVALS_CONNECTION",
    "PILLION_APPROVALS_DRIVER",
    "PILLION_APPROVALS_STORE",
    "PILLION_CACHE_STORE",
    "PILLION_CHAT_IN",
    "PILLION_CHAT_MODEL",
    "PILLION_LOG_CHANNEL",
    "PILLION_LOG_LEVEL",
    // Variables of scripts/env and php-examples.
    "PILLION_CACHE",
    "PILLION_EXTENSION",
    "PILLION_ROOT",
];

/// Returns the variables that begin with `PILLION_` and that neither Pillion nor the configuration
/// knows.
///
/// # Errors
/// [`ConfigError::MisspeltVariable`] for a name that is probably meant to set a key or to name the
/// configuration: without effect, the variable would remove a restriction.
pub(super) fn unknown(
    variables: &[(OsString, OsString)],
    table: &Table,
) -> Result<Vec<String>, ConfigError> {
    let mut texts = BTreeSet::new();
    table
        .values()
        .for_each(|value| collect_texts(value, &mut texts));
    let mut unknown = Vec::new();
    for (name, _) in variables {
        let name = name.to_string_lossy();
        let is_ours = has_prefix(&name, PILLION_PREFIX);
        let is_key = name.starts_with(VARIABLE_PREFIX);
        if !is_ours || is_key || KNOWN_VARIABLES.contains(&&*name) || texts.contains(&*name) {
            continue;
        }
        let variable = name.clone().into_owned();
        if is_like_key(&name[PILLION_PREFIX.len()..]) {
            return Err(ConfigError::MisspeltVariable { variable });
        }
        if let Some(known) = KNOWN_VARIABLES[..2]
            .iter()
            .find(|known| is_like(&name, known))
        {
            return Err(ConfigError::UnknownVariable { variable, known });
        }
        unknown.push(variable);
    }
    unknown.sort();
    Ok(unknown)
}

/// Returns whether `name` is probably a typo of `known`, or begins with `known`.
fn is_like(name: &str, known: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with(known) || strsim::osa_distance(&name, known) <= MAX_TYPO_DISTANCE
}

/// Returns whether a name without its prefix is the path of a key whose parts are separated by `_`.
fn is_like_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.match_indices('_').any(|(at, _)| {
        let (section, rest) = (&name[..at], &name[at + 1..]);
        if section == "tools" {
            // The name of a tool may itself contain `_`.
            let mut names = rest.match_indices('_');
            return names.any(|(at, _)| starts(&rest[at + 1..]).any(is_key_of_tool));
        }
        starts(rest).any(|key| is_known([section, key]))
    })
}

/// Returns the name, and each part of it from its beginning to a `_`.
fn starts(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.match_indices('_').map(|(end, _)| end);
    ends.chain([name.len()]).map(|end| &name[..end])
}

fn is_key_of_tool(key: &str) -> bool {
    let known = network_tools::NAMES.iter().chain(&["get_time"]);
    let mut extra = known.flat_map(|tool| builtins::extra_keys(tool));
    extra.any(|extra| *extra == key) || is_known(["tools", "x", key])
}

/// Returns whether a configuration may have the key with this path.
fn is_known<const N: usize>(names: [&str; N]) -> bool {
    let value = names
        .into_iter()
        .rev()
        .fold(Value::Integer(0), |below, name| {
            Value::Table(Table::from_iter([(name.to_owned(), below)]))
        });
    let read = Config::deserialize(value);
    read.err()
        .is_none_or(|error| !error.message().starts_with("unknown field"))
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
