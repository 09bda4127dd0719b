//! Reads the table of one entry, such as a server or a tool, and takes values from environment
//! variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pillion_core::variable;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{KeyPath, KeyStep, strict_value};

/// An error in an entry. Does not name the file or the environment variable that contains the
/// entry.
#[derive(Debug)]
pub(super) struct EntryError {
    pub(super) key: KeyPath,
    pub(super) message: String,
}

pub(super) type Result<T, E = EntryError> = std::result::Result<T, E>;

/// The environment variables from which an entry may take secrets.
pub(super) type Variables = BTreeMap<String, OsString>;

pub(super) fn read<T: DeserializeOwned>(table: Table, path: &KeyPath) -> Result<T> {
    strict_value::read(table).map_err(|error| {
        let inner_path = KeyPath::from(error.path());
        let message = error.into_inner().message().to_owned();
        let key = path.extend(&inner_path);
        EntryError { key, message }
    })
}

/// Removes an array of tables from the configuration and returns its tables, each with its path.
pub(super) fn take_entries(config: &mut Table, key: &str) -> Result<Vec<(KeyPath, Table)>> {
    let path = KeyPath::from_names([key]);
    let values = match config.remove(key) {
        None => return Ok(Vec::new()),
        Some(Value::Array(values)) => values,
        Some(_) => {
            let message = format!("expected an array of tables: [[{key}]]");
            return Err(entry_error(path, message));
        }
    };
    let entries = values.into_iter().enumerate().map(|(index, value)| {
        let entry_path = path.join(KeyStep::Index(index));
        match value {
            Value::Table(entry) => Ok((entry_path, entry)),
            _ => Err(entry_error(entry_path, "expected a table")),
        }
    });
    entries.collect()
}

/// Sets the values that `authentication.*_env`, `headers_env` and `env_from` take from environment
/// variables.
pub(super) fn fill_from_variables(
    entry: &mut Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<()> {
    if let Some(Value::Table(authentication)) = entry.get_mut("authentication") {
        let authentication_path = path.join_name("authentication");
        let keys: Vec<_> = authentication.keys().cloned().collect();
        for key in keys {
            if let Some(target) = key.strip_suffix("_env") {
                let key_path = authentication_path.join_name(&key);
                let name = authentication.remove(&key);
                let value = variable_value(name, &key_path, variables)?;
                insert_once(authentication, target, value, key_path)?;
            }
        }
        // No value may be blank, except the user name and the password of basic authentication.
        let mut values = authentication.iter();
        let blank_entry = values.find(|(key, value)| {
            let text = value.as_str().unwrap_or("-");
            text.trim().is_empty() && !["username", "password"].contains(&key.as_str())
        });
        if let Some((key, _)) = blank_entry {
            return Err(entry_error(
                authentication_path.join_name(key),
                "the value is empty",
            ));
        }
    }
    for (source, target) in [("headers_env", "headers"), ("env_from", "env")] {
        fill_table(entry, source, target, path, variables)?;
    }
    Ok(())
}

/// Sets keys of the table `target` to the values of the variables that the table `source` names.
fn fill_table(
    entry: &mut Table,
    source: &str,
    target: &str,
    path: &KeyPath,
    variables: &Variables,
) -> Result<()> {
    let source_path = path.join_name(source);
    let names = match entry.remove(source) {
        None => return Ok(()),
        Some(Value::Table(names)) => names,
        Some(_) => {
            return Err(entry_error(
                source_path,
                "expected a table of names of environment variables",
            ));
        }
    };
    let target_value = entry
        .entry(target)
        .or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(values) = target_value else {
        // An invalid value is not reported here, because deserializing the entry reports it.
        return Ok(());
    };
    for (key, name) in names {
        let key_path = source_path.join_name(&key);
        let value = variable_value(Some(name), &key_path, variables)?;
        insert_once(values, &key, value, key_path)?;
    }
    Ok(())
}

/// Returns the value of the environment variable whose name is `name_value`.
pub(super) fn variable_value(
    name_value: Option<Value>,
    path: &KeyPath,
    variables: &Variables,
) -> Result<String> {
    let Some(Value::String(name)) = name_value else {
        return Err(entry_error(
            path.clone(),
            "expected the name of an environment variable",
        ));
    };
    match variables.get(&name).and_then(|value| value.to_str()) {
        Some(value) if !value.trim().is_empty() => Ok(value.to_owned()),
        Some(value) if !value.is_empty() => {
            let message = format!("{} contains only white space", variable::describe(&name));
            Err(entry_error(path.clone(), message))
        }
        _ => {
            let message = format!("{} is not set", variable::describe(&name));
            Err(entry_error(path.clone(), message))
        }
    }
}

fn insert_once(table: &mut Table, key: &str, value: String, path: KeyPath) -> Result<()> {
    match table.insert(key.to_owned(), Value::String(value)) {
        None => Ok(()),
        Some(_) => Err(entry_error(
            path,
            format!("{key} is also set: set only one of the two"),
        )),
    }
}

pub(super) fn entry_error(key: KeyPath, message: impl Into<String>) -> EntryError {
    EntryError {
        key,
        message: message.into(),
    }
}
