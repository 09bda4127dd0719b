use std::cell::Cell;

use serde_json::Value;
use url::Url;

use super::operation::Operation;
use super::{references, text};
use crate::HttpToolError;

/// Maximum total size, in bytes, of the schemas that are copied for all tools of a document.
/// Limited, because each tool has its own copy of shared schemas.
const MAX_COPIED_BYTES: usize = 64 * 1024 * 1024;

/// The HTTP methods whose operations can become tools.
const HTTP_METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// An OpenAPI document of version 3.0 or 3.1.
pub(super) struct OpenApiDocument {
    root: Value,
    /// Approximate number of schema bytes that may still be copied.
    remaining_bytes: Cell<usize>,
}

impl OpenApiDocument {
    /// Parses an OpenAPI document in JSON or YAML.
    pub(super) fn parse(content: &str) -> Result<Self, HttpToolError> {
        let root: Value = if content.trim_start().starts_with('{') {
            serde_json::from_str(content)
                .map_err(|error| fault(format!("invalid JSON: {error}")))?
        } else {
            serde_saphyr::from_str(content)
                .map_err(|error| fault(format!("invalid YAML: {error}")))?
        };
        let version = text(&root, "openapi").unwrap_or_default();
        let mut versions = ["3.0.", "3.1."].into_iter();
        if !versions.any(|supported_version| version.starts_with(supported_version)) {
            return Err(fault(format!(
                "'openapi' must be version 3.0 or 3.1 of OpenAPI, '{version}' given"
            )));
        }
        let remaining_bytes = Cell::new(MAX_COPIED_BYTES);
        Ok(Self {
            root,
            remaining_bytes,
        })
    }

    /// Returns whether the document's schemas have the form of OpenAPI 3.0: with `nullable`, and
    /// with boolean exclusive bounds.
    pub(super) fn has_old_schemas(&self) -> bool {
        text(&self.root, "openapi").is_some_and(|version| version.starts_with("3.0."))
    }

    /// Counts the bytes of a copied schema. Fails above [`MAX_COPIED_BYTES`] in total.
    pub(super) fn count_copied_bytes(&self, byte_count: usize) -> Result<(), String> {
        let remaining_bytes = self.remaining_bytes.get().checked_sub(byte_count);
        self.remaining_bytes.set(remaining_bytes.unwrap_or(0));
        let message = || {
            format!("the schemas of all tools together are larger than {MAX_COPIED_BYTES} bytes")
        };
        remaining_bytes.map(drop).ok_or_else(message)
    }

    /// Returns the value that a `$ref` leads to, or the value itself if the value has no `$ref`.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        references::resolve(&self.root, value)
    }

    /// Returns the target of a reference within the document.
    pub(super) fn find_target(&self, reference: &str) -> Result<&Value, String> {
        references::find_target(&self.root, reference)
    }

    /// Returns the base URL of the document's paths: the configured URL, or else the URL of the
    /// document's first server.
    pub(super) fn base_url(&self, configured_url: Option<&str>) -> Result<String, HttpToolError> {
        let fault = |message: &str| HttpToolError::new("base_url", message);
        let find_first_server_url = || text(self.root.get("servers")?.get(0)?, "url");
        let (base_url, url) = configured_url
            .or_else(find_first_server_url)
            .filter(|base_url| !base_url.contains(['{', '}']))
            .and_then(|base_url| Some((base_url, Url::parse(base_url).ok()?)))
            .ok_or_else(|| {
                fault("the API has no absolute base URL without variables: set base_url")
            })?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(fault(
                "the URL must not have a query or fragment, because the paths of the document \
                are appended to it",
            ));
        }
        Ok(base_url.trim_end_matches('/').to_owned())
    }

    /// Returns the operations of all paths, in their order in the document.
    pub(super) fn operations(&self) -> Vec<Operation<'_>> {
        let paths = self.root.get("paths").and_then(Value::as_object);
        let mut operations = Vec::new();
        for (path, path_item) in paths.into_iter().flatten() {
            let Ok(path_item) = self.resolve(path_item) else {
                continue;
            };
            for method in HTTP_METHODS {
                let operation = path_item.get(method);
                if let Some(operation) = operation.filter(|operation| operation.is_object()) {
                    operations.push(Operation::new(path, method, path_item, operation));
                }
            }
        }
        operations
    }

    /// Returns the IDs of the operations that have an `operationId`.
    pub(super) fn operation_ids(&self) -> Vec<&str> {
        self.operations().iter().filter_map(Operation::id).collect()
    }
}

fn fault(message: String) -> HttpToolError {
    HttpToolError::new("document", message)
}
