//! Creates tools from the operations of an OpenAPI document (3.0 or 3.1).

mod document;
mod operation;
mod references;
mod schema;

use std::path::PathBuf;

use pillion_core::tool::JsonObject;
use pillion_egress::EgressPolicy;
use pillion_mcp_client::Authentication;
use serde::Deserialize;
use serde_json::Value;

use crate::api_access::{ApiAccess, ApiAccessSettings};
use crate::{HttpTool, HttpToolError, StatusRange, entry};
use document::OpenApiDocument;

/// An OpenAPI document and the selection of its operations. Not `Debug`, because this value may
/// contain a credential.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenApiEntry {
    /// The name of the API, which prefixes the names of its tools unless `prefix` is set.
    pub name: String,
    /// The OpenAPI document: a local file, JSON or YAML.
    pub document: PathBuf,
    /// The `operationId`s of the operations that become tools; `["*"]` for all suitable operations.
    /// Other operations are not available.
    pub operations: Vec<String>,
    /// The base URL of the document's paths. Default: the URL of the document's first server, if
    /// the URL is absolute and has no variables.
    pub base_url: Option<String>,
    /// The prefix of the tools' names. Default: the name of the API and `_`.
    pub prefix: Option<String>,
    /// The headers of every request.
    #[serde(default)]
    pub headers: JsonObject,
    /// Names of headers whose values are redacted in responses.
    #[serde(default)]
    pub secret_headers: Vec<String>,
    /// The credential: none, `bearer`, `api-key` or `basic`.
    #[serde(default)]
    pub authentication: Authentication,
    /// The egress policy: the addresses that the tools' requests may reach.
    #[serde(default)]
    pub egress: EgressPolicy,
    /// Timeout of a request, including the body, in milliseconds. Default 30,000.
    pub timeout_ms: Option<u64>,
    /// Maximum size of a response, in bytes. Default 1 MiB.
    pub max_answer_bytes: Option<usize>,
    /// The statuses that count as success. Default `["2XX"]`.
    #[serde(default)]
    pub success: Vec<StatusRange>,
}

impl OpenApiEntry {
    /// Returns the tools of the selected operations, in the order of the operations in the
    /// document, whose text is `document`.
    ///
    /// ```
    /// use pillion_core::tool::Tool;
    /// use pillion_http_tools::OpenApiEntry;
    /// let entry: OpenApiEntry = serde_json::from_value(serde_json::json!({
    ///     "name": "shop", "document": "shop.json", "operations": ["getOrder"],
    ///     "base_url": "https://shop.example/api",
    /// }))?;
    /// let document = serde_json::json!({"openapi": "3.1.0", "paths": {"/orders/{number}": {"get": {
    ///     "operationId": "getOrder",
    ///     "parameters": [{"name": "number", "in": "path", "required": true, "schema": {}}],
    /// }}}});
    /// let tools = entry.tools(&document.to_string())?;
    /// assert_eq!(tools[0].definition().name().as_str(), "shop_getOrder");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The document is invalid, or a selected operation does not exist or cannot become a tool.
    /// With `*`, unsuitable operations are skipped and logged.
    pub fn tools(self, document: &str) -> Result<Vec<HttpTool>, HttpToolError> {
        self.create_tools(&OpenApiDocument::parse(document)?)
    }

    fn create_tools(self, document: &OpenApiDocument) -> Result<Vec<HttpTool>, HttpToolError> {
        let base_url = document.base_url(self.base_url.as_deref())?;
        let prefix = self.prefix.unwrap_or_else(|| format!("{}_", self.name));
        let headers = entry::parse_headers(self.headers)?;
        if headers.iter().any(|(_, value)| !value.is_constant()) {
            let message =
                "headers of an OpenAPI document apply to all requests and must not use arguments";
            return Err(HttpToolError::new("headers", message));
        }
        let access = ApiAccess::new(ApiAccessSettings {
            secrets: entry::secret_values(&headers, &self.secret_headers)?,
            authentication: self.authentication,
            egress: self.egress,
            timeout_ms: self.timeout_ms,
            max_response_bytes: self.max_answer_bytes,
            success_statuses: self.success,
        })?;
        let selects_all = self.operations.iter().any(|selected_id| selected_id == "*");
        if self.operations.is_empty() {
            let known_ids = document.operation_ids().join(", ");
            let message = format!(
                "no operation is selected: list operation ids, or [\"*\"] for all operations. The \
                document has: {known_ids}"
            );
            return Err(HttpToolError::new("operations", message));
        }
        let mut tools = Vec::new();
        let mut unmatched_ids = self.operations;
        for operation in document.operations() {
            let id = operation.id();
            let is_selected_by_id =
                id.is_some_and(|id| unmatched_ids.iter().any(|selected_id| selected_id == id));
            unmatched_ids.retain(|selected_id| Some(selected_id.as_str()) != id);
            if !is_selected_by_id && !selects_all {
                continue;
            }
            let tool = operation
                .check_base_url(self.base_url.as_deref())
                .and_then(|()| operation.to_tool(document, &base_url, &prefix, &headers, &access));
            match tool {
                Ok(tool) => tools.push(tool),
                Err(error) if is_selected_by_id => return Err(error),
                Err(error) => tracing::warn!(
                    api = %self.name,
                    "Skipped an operation of an OpenAPI document: {error}"
                ),
            }
        }
        if let Some(unknown) = unmatched_ids.iter().find(|selected_id| *selected_id != "*") {
            let known_ids = document.operation_ids().join(", ");
            let message = format!("unknown operation '{unknown}'. The document has: {known_ids}");
            return Err(HttpToolError::new("operations", message));
        }
        Ok(tools)
    }
}

/// Returns a member of a JSON object if the member is a string.
fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
