//! Reads the table of one entry, such as a server or a tool, and takes values from environment
//! variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pillion_core::variable;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::KeyPath;
use super::strict_value;

/// An error in an entry, without the file or variable that the entry came from.
#[derive(Debug)]
pub(super) struct EntryError {
    pub(super) key: KeyPath,
    pub(super) message: String,
}

/// The environment variables from which an entry may take secrets.
pub(super) type Variables = BTreeMap<String, OsString>;

pub(super) fn read<T: DeserializeOwned>(table: Table, path: &KeyPath) -> Result<T, EntryError> {
    strict_value::read(table).map_err(|error| {
        let inner = KeyPath::from(error.path());
        let message = error.into_inner().message().to_owned();
        let key = path.extend(&inner);
        EntryError { key, message }
    })
}

/// Sets the values that `authentication.*_env`, `headers_env` and `env_from` take from environment
/// variables.
pub(super) fn fill_from_variables(
    entry: &mut Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<(), EntryError> {
    if let Some(Value::Table(authentication)) = entry.get_mut("authentication") {
        let path = path.join_name("authentication");
        let keys: Vec<_> = authentication.keys().cloned().collect();
        for key in keys {
            if let Some(target) = key.strip_suffix("_env") {
                let path = path.join_name(&key);
                let value = variable_value(authentication.remove(&key), &path, variables)?;
                insert_once(authentication, target, value, path)?;
            }
        }
        // Of the two parts of basic authentication, one may be missing.
        let mut values = authentication.iter();
        let blank = values.find(|(key, value)| {
            let text = value.as_str().unwrap_or("-");
            text.trim().is_empty() && !["username", "password"].contains(&key.as_str())
        });
        if let Some((key, _)) = blank {
            return Err(fault(path.join_name(key), "the value is empty"));
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
) -> Result<(), EntryError> {
    let path = path.join_name(source);
    let names = match entry.remove(source) {
        None => return Ok(()),
        Some(Value::Table(names)) => names,
        Some(_) => {
            return Err(fault(
                path,
                "expected a table of names of environment variables",
            ));
        }
    };
    let values = entry
        .entry(target)
        .or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(values) = values else {
        return Ok(()); // Deserializing the entry reports the error.
    };
    for (key, name) in names {
        let path = path.join_name(&key);
        let value = variable_value(Some(name), &path, variables)?;
        insert_once(values, &key, value, path)?;
    }
    Ok(())
}

/// Returns the value of the variable that `name` names.
pub(super) fn variable_value(
    name: Option<Value>,
    path: &KeyPath,
    variables: &Variables,
) -> Result<String, EntryError> {
    let Some(Value::String(name)) = name else {
        return Err(fault(
            path.clone(),
            "expected the name of an environment variable",
        ));
    };
    match variables.get(&name).and_then(|value| value.to_str()) {
        Some(value) if !value.trim().is_empty() => Ok(value.to_owned()),
        Some(value) if !value.is_empty() => {
            let message = format!("{} contains only white space", variable::shown(&name));
            Err(fault(path.clone(), message))
        }
        _ => {
            let message = format!("{} is not set", variable::shown(&name));
            Err(fault(path.clone(), message))
        }
    }
}

fn insert_once(
    table: &mut Table,
    key: &str,
    value: String,
    path: KeyPath,
) -> Result<(), EntryError> {
    match table.insert(key.to_owned(), Value::String(value)) {
        None => Ok(()),
        Some(_) => Err(fault(
            path,
            format!("{key} is also set: set only one of the two"),
        )),
    }
}

pub(super) fn fault(key: KeyPath, message: impl Into<String>) -> EntryError {
    let message = message.into();
    EntryError { key, message }
}
