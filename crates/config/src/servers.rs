use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use pillion_core::variable;
use pillion_mcp_client::ServerConfig;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::native;
use super::server_name::server_name_error;
use super::strict_value;
use super::{Key, KeyPath, McpServerSection, ServerSettings};

/// An error in an entry, without the file or variable that the entry came from.
#[derive(Debug)]
pub(super) struct ServerEntryError {
    pub(super) key: KeyPath,
    pub(super) message: String,
}

/// The environment variables that an entry may take secrets from.
pub(super) type Variables = BTreeMap<String, OsString>;

/// Which entries to read.
#[derive(Debug, Clone, Copy)]
pub(super) enum EntryFilter<'a> {
    All,
    /// Only the entry with this label. Other entries are not checked, and their environment
    /// variables need not be set.
    Labelled(&'a str),
}

/// The servers read from `mcp_servers`.
#[derive(Debug, Default)]
pub(super) struct ServerEntries {
    pub(super) servers: Vec<McpServerSection>,
    /// The labels of the entries that were skipped.
    pub(super) others: Vec<String>,
}

/// Takes `mcp_servers` out of the configuration and reads its entries.
pub(super) fn take(
    config: &mut Table,
    variables: &Variables,
    filter: EntryFilter<'_>,
) -> Result<ServerEntries, ServerEntryError> {
    let path = KeyPath::from_names(["mcp_servers"]);
    let entries = match config.remove("mcp_servers") {
        None => return Ok(ServerEntries::default()),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(fault(path, "expected an array of tables: [[mcp_servers]]")),
    };
    let mut labels = BTreeSet::new();
    let mut taken = ServerEntries::default();
    for (index, entry) in entries.into_iter().enumerate() {
        let path = path.join(Key::Index(index));
        let Value::Table(entry) = entry else {
            return Err(fault(path, "expected a table"));
        };
        if let (EntryFilter::Labelled(filter), Some(label)) = (filter, entry.get("label"))
            && label.as_str() != Some(filter)
        {
            taken.others.extend(label.as_str().map(str::to_owned));
            continue;
        }
        let server = read_server(entry, &path, variables)?;
        if !labels.insert(server.label().to_owned()) {
            let message = format!("the label '{}' is used by two servers", server.label());
            return Err(fault(path.join_name("label"), message));
        }
        taken.servers.push(server);
    }
    Ok(taken)
}

fn read_server(
    mut entry: Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<McpServerSection, ServerEntryError> {
    let mut source = entry.clone();
    let mut settings = Table::new();
    for name in ServerSettings::keys_of_entry() {
        if let Some(value) = entry.remove(name) {
            settings.insert(name.to_owned(), value);
        }
    }
    native::fill_token(&mut settings, path, variables)?;
    let settings: ServerSettings = read(settings, path)?;
    fill_from_variables(&mut entry, path, variables)?;
    // Includes the values of variables: they can change while the entry stays the same.
    source.insert("filled".to_owned(), Value::Table(entry.clone()));
    let server: ServerConfig = read(entry, path)?;
    server
        .validate()
        .map_err(|error| fault(path.clone(), error.to_string()))?;
    if server.label.trim().is_empty() {
        return Err(fault(path.join_name("label"), "the label is empty"));
    }
    if let Some(problem) = server_name_error(&server.label) {
        return Err(fault(path.join_name("label"), problem));
    }
    if let Some((key, message)) = settings.fault(&server) {
        return Err(fault(path.join_name(key), message));
    }
    if let Some(native) = &settings.native {
        native.check_url(path)?;
    }
    Ok(McpServerSection::new(settings, server, &source.to_string()))
}

pub(super) fn read<T: DeserializeOwned>(
    table: Table,
    path: &KeyPath,
) -> Result<T, ServerEntryError> {
    strict_value::read(table).map_err(|error| {
        let inner = KeyPath::from(error.path());
        let message = error.into_inner().message().to_owned();
        let key = path.extend(&inner);
        ServerEntryError { key, message }
    })
}

/// Sets the values of environment variables that `authentication.*_env`, `headers_env` and
/// `env_from` name.
pub(super) fn fill_from_variables(
    entry: &mut Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<(), ServerEntryError> {
    if let Some(Value::Table(authentication)) = entry.get_mut("authentication") {
        let path = path.join_name("authentication");
        let asking: Vec<_> = authentication.keys().cloned().collect();
        for key in asking {
            if let Some(target) = key.strip_suffix("_env") {
                let path = path.join_name(&key);
                let value = variable_value(authentication.remove(&key), &path, variables)?;
                insert_once(authentication, target, value, path)?;
            }
        }
        // Basic authentication may lack one of its two parts.
        let mut values = authentication.iter();
        let blank = values.find(|(key, value)| {
            let text = value.as_str().unwrap_or("-");
            text.trim().is_empty() && !["username", "password"].contains(&key.as_str())
        });
        if let Some((key, _)) = blank {
            return Err(fault(path.join_name(key), "the value is empty"));
        }
    }
    for (asking, target) in [("headers_env", "headers"), ("env_from", "env")] {
        fill_table(entry, asking, target, path, variables)?;
    }
    Ok(())
}

/// Sets keys of the table `target` to the variables that the table `asking` names.
fn fill_table(
    entry: &mut Table,
    asking: &str,
    target: &str,
    path: &KeyPath,
    variables: &Variables,
) -> Result<(), ServerEntryError> {
    let path = path.join_name(asking);
    let names = match entry.remove(asking) {
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
) -> Result<String, ServerEntryError> {
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
) -> Result<(), ServerEntryError> {
    match table.insert(key.to_owned(), Value::String(value)) {
        None => Ok(()),
        Some(_) => Err(fault(
            path,
            format!("{key} is also set: set only one of the two"),
        )),
    }
}

pub(super) fn fault(key: KeyPath, message: impl Into<String>) -> ServerEntryError {
    let message = message.into();
    ServerEntryError { key, message }
}
