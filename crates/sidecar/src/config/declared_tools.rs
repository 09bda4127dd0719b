use std::path::PathBuf;
use std::sync::Arc;

use pillion_core::compose::{self, Composition};
use pillion_core::tool::{Tool, ToolName};
use pillion_http_tools::{HttpTool, HttpToolEntry, HttpToolError, OpenApiEntry};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::servers::{Fault, Variables, fault, fill_from_variables, read};
use super::{Key, KeyPath};

/// The tools that the configuration itself declares: `[[composed_tools]]`, `[[http_tools]]` and
/// the operations of `[[openapi]]`. Credentials of the latter two may stand in the environment, as
/// those of MCP servers.
#[derive(Debug, Clone, Default)]
pub struct DeclaredTools {
    /// Tools that are made of other tools.
    pub composed: Vec<Composition>,
    /// HTTP endpoints.
    pub http: Vec<Arc<HttpTool>>,
    /// The files that were read for them.
    pub(crate) documents: Vec<PathBuf>,
}

impl DeclaredTools {
    /// The keys of the configuration that declare tools.
    pub(super) const KEYS: [&'static str; 3] = ["composed_tools", "http_tools", "openapi"];

    /// The documents that a configuration names, which may be a bad one.
    pub(super) fn documents_named(config: &Table) -> Vec<&Value> {
        let [.., openapi] = Self::KEYS;
        let entries = config.get(openapi).and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        entries.filter_map(|entry| entry.get("document")).collect()
    }

    /// Takes them out of the configuration, and reads nothing of them.
    pub(super) fn leave_out(config: &mut Table) {
        for key in Self::KEYS {
            config.remove(key);
        }
    }

    /// Takes them out of the configuration and reads them, with the documents that they name.
    pub(super) fn take(config: &mut Table, variables: &Variables) -> Result<Self, Fault> {
        let [composed, http, openapi] = Self::KEYS;
        let mut taken = Self::default();
        let mut names = pillion_builtins::all()
            .iter()
            .map(|tool| tool.definition().name().clone())
            .collect();
        for (path, entry) in entries(config, http)? {
            let tool = HttpTool::new(filled::<HttpToolEntry>(entry, &path, variables)?)
                .map_err(|error| http_fault(&path, error))?;
            claim(&mut names, tool.definition().name(), &path)?;
            taken.http.push(Arc::new(tool));
        }
        for (path, entry) in entries(config, openapi)? {
            let entry: OpenApiEntry = filled(entry, &path, variables)?;
            taken.documents.push(entry.document.clone());
            let tools = entry.tools().map_err(|error| http_fault(&path, error))?;
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
        compose::circles(&taken.composed)
            .map_err(|error| fault(KeyPath::from_names([composed]), error.to_string()))?;
        Ok(taken)
    }
}

/// The tables of an array, each with its place.
fn entries(config: &mut Table, key: &str) -> Result<Vec<(KeyPath, Table)>, Fault> {
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
    let entries = entries.into_iter().enumerate().map(|(place, entry)| {
        let path = path.join(Key::Index(place));
        match entry {
            Value::Table(entry) => Ok((path, entry)),
            _ => Err(fault(path, "expected a table")),
        }
    });
    entries.collect()
}

/// An entry with what it takes from the environment.
fn filled<T: DeserializeOwned>(
    mut entry: Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<T, Fault> {
    let of_environment = match entry.get("headers_env") {
        Some(Value::Table(names)) => names.keys().cloned().map(Value::String).collect(),
        _ => Vec::new(),
    };
    fill_from_variables(&mut entry, path, variables)?;
    if !of_environment.is_empty() {
        let secret = entry.entry("secret_headers");
        let secret = secret.or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(names) = secret {
            names.extend(of_environment);
        }
    }
    read(entry, path)
}

fn claim(names: &mut Vec<ToolName>, name: &ToolName, path: &KeyPath) -> Result<(), Fault> {
    if names.contains(name) {
        let message = format!("there is another tool '{name}'");
        return Err(fault(path.join_name("name"), message));
    }
    names.push(name.clone());
    Ok(())
}

fn http_fault(path: &KeyPath, error: HttpToolError) -> Fault {
    let path = match error.key {
        "" => path.clone(),
        key => path.join_name(key),
    };
    fault(path, error.what)
}
