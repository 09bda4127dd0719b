use std::sync::Arc;

use pillion_core::compose::{self, Composition};
use pillion_core::tool::{Tool, ToolName};
use pillion_http_tools::{HttpTool, HttpToolEntry, HttpToolError, OpenApiEntry};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::entry::{EntryError, Variables, fault, fill_from_variables, read};
use super::{ConfigFile, Key, KeyPath};

/// The tools that the configuration declares: `[[composed_tools]]`, `[[http_tools]]` and the
/// operations of `[[openapi]]`. HTTP tools and OpenAPI entries can take credentials from
/// environment variables, as MCP servers do.
#[derive(Debug, Clone, Default)]
pub struct DeclaredTools {
    /// Tools that are composed of other tools.
    pub composed: Vec<Composition>,
    /// Tools that call an HTTP endpoint.
    pub http: Vec<Arc<HttpTool>>,
    /// The OpenAPI documents that were read.
    pub documents: Vec<ConfigFile>,
}

impl DeclaredTools {
    /// The configuration keys that declare tools.
    pub(super) const KEYS: [&'static str; 3] = ["composed_tools", "http_tools", "openapi"];

    /// Returns the `document` values of a configuration that may be invalid.
    pub(super) fn documents_named(config: &Table) -> Vec<&Value> {
        let [.., openapi] = Self::KEYS;
        let entries = config.get(openapi).and_then(Value::as_array);
        let tables = entries.into_iter().flatten();
        tables.filter_map(|entry| entry.get("document")).collect()
    }

    /// Removes the declared tools from the configuration without reading them.
    pub(super) fn skip(config: &mut Table) {
        for key in Self::KEYS {
            config.remove(key);
        }
    }

    /// Removes the declared tools from the configuration and reads them, together with their
    /// OpenAPI documents.
    pub(super) fn take(config: &mut Table, variables: &Variables) -> Result<Self, EntryError> {
        let [composed, http, openapi] = Self::KEYS;
        let mut taken = Self::default();
        let mut names = pillion_builtins::all()
            .iter()
            .map(|tool| tool.definition().name().clone())
            .collect();
        for (path, entry) in entries(config, http)? {
            let tool = HttpTool::new(read_filled::<HttpToolEntry>(entry, &path, variables)?)
                .map_err(|error| http_fault(&path, error))?;
            claim(&mut names, tool.definition().name(), &path)?;
            taken.http.push(Arc::new(tool));
        }
        for (path, entry) in entries(config, openapi)? {
            let entry: OpenApiEntry = read_filled(entry, &path, variables)?;
            let document = ConfigFile::read(&entry.document)
                .map_err(|error| fault(path.join_name("document"), error.to_string()))?;
            let read = entry.tools(document.text());
            let tools = read.map_err(|error| http_fault(&path, error))?;
            taken.documents.push(document);
            for tool in tools {
                claim(&mut names, tool.definition().name(), &path)?;
                taken.http.push(Arc::new(tool));
            }
        }
        for (path, entry) in entries(config, composed)? {
            let entry = serde_json::to_value(entry)
                .map_err(|error| fault(path.clone(), error.to_string()))?;
            let composition = Composition::parse(entry)
                .map_err(|error| fault(path.clone(), error.to_string()))?;
            claim(&mut names, composition.definition().name(), &path)?;
            taken.composed.push(composition);
        }
        compose::check_cycles(&taken.composed)
            .map_err(|error| fault(KeyPath::from_names([composed]), error.to_string()))?;
        Ok(taken)
    }
}

/// Removes an array of tables and returns its tables, each with its path.
fn entries(config: &mut Table, key: &str) -> Result<Vec<(KeyPath, Table)>, EntryError> {
    let path = KeyPath::from_names([key]);
    let entries = match config.remove(key) {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            return Err(fault(
                path,
                format!("expected an array of tables: [[{key}]]"),
            ));
        }
    };
    let entries = entries.into_iter().enumerate().map(|(index, entry)| {
        let path = path.join(Key::Index(index));
        match entry {
            Value::Table(entry) => Ok((path, entry)),
            _ => Err(fault(path, "expected a table")),
        }
    });
    entries.collect()
}

/// Reads an entry after inserting the values of environment variables.
fn read_filled<T: DeserializeOwned>(
    mut entry: Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<T, EntryError> {
    let from_environment = match entry.get("headers_env") {
        Some(Value::Table(names)) => names.keys().cloned().map(Value::String).collect(),
        _ => Vec::new(),
    };
    fill_from_variables(&mut entry, path, variables)?;
    if !from_environment.is_empty() {
        let member = entry.entry("secret_headers");
        let secret = member.or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(names) = secret {
            names.extend(from_environment);
        }
    }
    read(entry, path)
}

fn claim(names: &mut Vec<ToolName>, name: &ToolName, path: &KeyPath) -> Result<(), EntryError> {
    if names.contains(name) {
        let message = format!("the tool name '{name}' is used twice");
        return Err(fault(path.join_name("name"), message));
    }
    names.push(name.clone());
    Ok(())
}

fn http_fault(path: &KeyPath, error: HttpToolError) -> EntryError {
    let path = match error.key {
        "" => path.clone(),
        key => path.join_name(key),
    };
    fault(path, error.what)
}
