use std::sync::Arc;

use pillion_core::compose::{self, Composition};
use pillion_core::tool::{Tool, ToolName};
use pillion_http_tools::{HttpTool, HttpToolEntry, HttpToolError, OpenApiEntry};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::entry::{
    EntryError, Result, Variables, entry_error, fill_from_variables, read, take_entries,
};
use super::{ConfigFile, KeyPath};

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
    pub(super) const DECLARING_KEYS: [&'static str; 3] =
        ["composed_tools", "http_tools", "openapi"];

    /// Returns the `document` values of all `[[openapi]]` entries, as far as they can be read. The
    /// configuration may be invalid.
    pub(super) fn find_document_values(config: &Table) -> Vec<&Value> {
        let [.., openapi] = Self::DECLARING_KEYS;
        let entries = config.get(openapi).and_then(Value::as_array);
        let tables = entries.into_iter().flatten();
        tables.filter_map(|entry| entry.get("document")).collect()
    }

    /// Removes the declared tools from the configuration without reading them.
    pub(super) fn skip(config: &mut Table) {
        for key in Self::DECLARING_KEYS {
            config.remove(key);
        }
    }

    /// Removes the declared tools from the configuration and reads them, together with their
    /// OpenAPI documents.
    pub(super) fn take(config: &mut Table, variables: &Variables) -> Result<Self> {
        let [composed, http, openapi] = Self::DECLARING_KEYS;
        let mut declared_tools = Self::default();
        let mut used_names = pillion_builtins::all()
            .iter()
            .map(|tool| tool.definition().name().clone())
            .collect();
        for (path, entry) in take_entries(config, http)? {
            let tool = HttpTool::new(read_filled::<HttpToolEntry>(entry, &path, variables)?)
                .map_err(|error| http_error(&path, error))?;
            claim_name(&mut used_names, tool.definition().name(), &path)?;
            declared_tools.http.push(Arc::new(tool));
        }
        for (path, entry) in take_entries(config, openapi)? {
            let openapi_entry: OpenApiEntry = read_filled(entry, &path, variables)?;
            let document = ConfigFile::read(&openapi_entry.document)
                .map_err(|error| entry_error(path.join_name("document"), error.to_string()))?;
            let tools_result = openapi_entry.tools(document.text());
            let tools = tools_result.map_err(|error| http_error(&path, error))?;
            declared_tools.documents.push(document);
            for tool in tools {
                claim_name(&mut used_names, tool.definition().name(), &path)?;
                declared_tools.http.push(Arc::new(tool));
            }
        }
        for (path, entry) in take_entries(config, composed)? {
            let json = serde_json::to_value(entry)
                .map_err(|error| entry_error(path.clone(), error.to_string()))?;
            let composition = Composition::parse(json)
                .map_err(|error| entry_error(path.clone(), error.to_string()))?;
            claim_name(&mut used_names, composition.definition().name(), &path)?;
            declared_tools.composed.push(composition);
        }
        compose::check_cycles(&declared_tools.composed)
            .map_err(|error| entry_error(KeyPath::from_names([composed]), error.to_string()))?;
        Ok(declared_tools)
    }
}

/// Reads an entry after inserting the values of environment variables.
fn read_filled<T: DeserializeOwned>(
    mut entry: Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<T> {
    let secret_names = match entry.get("headers_env") {
        Some(Value::Table(names)) => names.keys().cloned().map(Value::String).collect(),
        _ => Vec::new(),
    };
    fill_from_variables(&mut entry, path, variables)?;
    if !secret_names.is_empty() {
        let secret_headers = entry
            .entry("secret_headers")
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(names) = secret_headers {
            names.extend(secret_names);
        }
    }
    read(entry, path)
}

fn claim_name(names: &mut Vec<ToolName>, name: &ToolName, path: &KeyPath) -> Result<()> {
    if names.contains(name) {
        let message = format!("the tool name '{name}' is used twice");
        return Err(entry_error(path.join_name("name"), message));
    }
    names.push(name.clone());
    Ok(())
}

fn http_error(path: &KeyPath, error: HttpToolError) -> EntryError {
    let key_path = match error.key {
        "" => path.clone(),
        key => path.join_name(key),
    };
    entry_error(key_path, error.message)
}
