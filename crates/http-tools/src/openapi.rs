//! Operations of an OpenAPI document (3.0 and 3.1) as tools.

mod document;
mod operation;
mod references;
mod schema;

use std::path::PathBuf;

use pillion_core::egress::EgressPolicy;
use pillion_core::mcp::Authentication;
use pillion_core::tool::JsonObject;
use serde::Deserialize;
use serde_json::Value;

use crate::door::{Door, DoorKeys};
use crate::{HttpTool, HttpToolError, StatusRange, entry};
use document::Document;

/// An OpenAPI document and the operations of it that are to be tools. Not `Debug`: there may be a
/// credential in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenApiEntry {
    /// What the API is called; tools have it before their names, unless `prefix` says otherwise.
    pub name: String,
    /// The document: a file on this machine, JSON or YAML.
    pub document: PathBuf,
    /// The `operationId`s of the operations that become tools; `["*"]` for all that can. Nothing
    /// becomes a tool that is not chosen.
    pub operations: Vec<String>,
    /// What stands before the paths of the document. Default its first server, where that is a
    /// whole URL without variables.
    pub base_url: Option<String>,
    /// What stands before the tools' names. Default the name and `_`.
    pub prefix: Option<String>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: JsonObject,
    /// Names of headers whose values no answer may show.
    #[serde(default)]
    pub secret_headers: Vec<String>,
    /// The credential: none, bearer, api-key or basic.
    #[serde(default)]
    pub authentication: Authentication,
    /// Where requests may go.
    #[serde(default)]
    pub egress: EgressPolicy,
    /// How long the answer may take, body included. Default 30,000 ms.
    pub timeout_ms: Option<u64>,
    /// The longest answer, in bytes. Default 1 MiB.
    pub max_answer_bytes: Option<usize>,
    /// Which statuses are no errors. Default `["2XX"]`.
    #[serde(default)]
    pub success: Vec<StatusRange>,
}

impl OpenApiEntry {
    /// The tools of the chosen operations, in the order of the document. Reads the document, and
    /// does no other I/O.
    ///
    /// # Errors
    /// [`HttpToolError`]: the document cannot be read; an operation that is named is not there or
    /// cannot be a tool. With `*`, those that cannot are left out, and the log says so.
    pub fn tools(self) -> Result<Vec<HttpTool>, HttpToolError> {
        let document = Document::read(&self.document)?;
        self.tools_of(&document)
    }

    fn tools_of(self, document: &Document) -> Result<Vec<HttpTool>, HttpToolError> {
        let base = document.base_url(self.base_url.as_deref())?;
        let prefix = self.prefix.unwrap_or_else(|| format!("{}_", self.name));
        let headers = entry::headers(self.headers)?;
        if headers.iter().any(|(_, value)| !value.is_constant()) {
            let what = "these stand in every request, and have no place for arguments";
            return Err(HttpToolError::new("headers", what));
        }
        let door = Door::new(DoorKeys {
            secrets: entry::values_of(&headers, &self.secret_headers)?,
            authentication: self.authentication,
            egress: self.egress,
            timeout_ms: self.timeout_ms,
            max_answer_bytes: self.max_answer_bytes,
            success: self.success,
        })?;
        let wants_all = self.operations.iter().any(|wanted| wanted == "*");
        if self.operations.is_empty() {
            let known = document.operation_ids().join(", ");
            let what = format!("name operations, or [\"*\"] for all. There are: {known}");
            return Err(HttpToolError::new("operations", what));
        }
        let mut tools = Vec::new();
        let mut left = self.operations;
        for operation in document.operations() {
            let id = operation.id();
            let is_named = id.is_some_and(|id| left.iter().any(|wanted| wanted == id));
            left.retain(|wanted| Some(wanted.as_str()) != id);
            if !is_named && !wants_all {
                continue;
            }
            let tool = operation
                .stands_at(self.base_url.as_deref())
                .and_then(|()| operation.tool(document, &base, &prefix, &headers, &door));
            match tool {
                Ok(tool) => tools.push(tool),
                Err(error) if is_named => return Err(error),
                Err(error) => tracing::warn!(api = %self.name, "Left out: {error}"),
            }
        }
        if let Some(stray) = left.iter().find(|wanted| *wanted != "*") {
            let known = document.operation_ids().join(", ");
            let what = format!("there is no operation '{stray}'. There are: {known}");
            return Err(HttpToolError::new("operations", what));
        }
        Ok(tools)
    }
}

/// A text of an object, if it is there and one.
fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
