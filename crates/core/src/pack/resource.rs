use async_trait::async_trait;
use serde::Serialize;

use super::ChangeListener;
use crate::store::StoreError;
use crate::tool::{CallContext, ErrorCode};

/// A resource in a list, as in MCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The URI for reading the resource.
    pub uri: String,
    /// The name by which programs identify the resource.
    pub name: String,
    /// What the resource contains, for people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of the contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl Resource {
    /// Creates a resource without description and media type.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            description: None,
            mime_type: None,
        }
    }

    /// Sets [`description`](Self::description).
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the media type to JSON.
    #[must_use]
    pub fn with_json_type(mut self) -> Self {
        self.mime_type = Some("application/json".to_owned());
        self
    }
}

/// A resource template: a URI template (RFC 6570) for resources of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// The URI template, such as `transcript://scene/{id}`.
    pub uri_template: String,
    /// The name by which programs identify the template.
    pub name: String,
    /// What the resources of the template contain, for people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of the contents, if it is the same for all resources of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContents {
    /// The media type of the contents, such as `application/json`.
    pub mime_type: String,
    /// The text or the bytes of the contents.
    pub body: ResourceBody,
}

/// The contents of a resource as text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceBody {
    /// Text of any media type, such as JSON.
    Text(String),
    /// Contents other than text.
    Bytes(Vec<u8>),
}

impl ResourceContents {
    /// Creates contents of the media type `application/json`.
    #[must_use]
    pub fn json(value: &serde_json::Value) -> Self {
        Self {
            mime_type: "application/json".to_owned(),
            body: ResourceBody::Text(value.to_string()),
        }
    }
}

/// The caller that reads or lists resources, and the restrictions on what the caller may see.
#[derive(Debug, Clone, Copy)]
pub struct ResourceReader<'a> {
    /// The caller: user, interface and so on.
    pub context: &'a CallContext,
    /// The only user whose resources the reader may see, if the reader is restricted.
    pub only_user: Option<&'a str>,
}

impl ResourceReader<'_> {
    /// Returns whether the reader may see what belongs to this user. A restricted reader may not
    /// see what belongs to no user.
    #[must_use]
    pub fn may_see(&self, user: Option<&str>) -> bool {
        match (self.only_user, user) {
            (Some(only_user), Some(user)) => only_user == user,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }
}

/// Why a resource cannot be read or listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResourceError {
    /// The code of the error, such as `not_found`.
    pub code: ErrorCode,
    /// The error message, without internal details.
    pub message: String,
}

impl ResourceError {
    /// Returns the error for an unknown resource.
    #[must_use]
    pub fn not_found() -> Self {
        Self {
            code: ErrorCode::NotFound,
            message: "Resource not found".to_owned(),
        }
    }
}

impl From<StoreError> for ResourceError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "Cannot read a resource of a pack");
        Self {
            code: error.code(),
            message: "The resources of the pack cannot be read from the store".to_owned(),
        }
    }
}

/// Lists and reads the resources of a pack.
#[async_trait]
pub trait ResourceProvider: Send + Sync {
    /// Returns templates for resources that are not in the list.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Returns whether this provider owns a URI, so that other providers are not queried for the
    /// URI. The resource need not exist yet: clients can subscribe to the URI, and are notified
    /// when the resource is created.
    fn owns(&self, uri: &str) -> bool;

    /// Lists the existing resources. An implementation should limit their number to what is useful
    /// to browse.
    ///
    /// # Errors
    /// The resources cannot be listed; other providers are still listed.
    async fn list(&self, reader: ResourceReader<'_>) -> Result<Vec<Resource>, ResourceError>;

    /// Reads the contents of an owned resource.
    ///
    /// # Errors
    /// There is no such resource (`not_found`), or it cannot be read.
    async fn read(
        &self,
        uri: &str,
        reader: ResourceReader<'_>,
    ) -> Result<ResourceContents, ResourceError>;

    /// Returns a listener for changes of the resources after this call; `None` if the resources of
    /// this provider never change.
    fn changes(&self) -> Option<ChangeListener> {
        None
    }
}

/// Splits a URI into the part before the query and the query: `a://b?c` into `a://b` and `c`.
#[must_use]
pub fn split_query(uri: &str) -> (&str, Option<&str>) {
    match uri.split_once('?') {
        Some((uri, query)) => (uri, Some(query)),
        None => (uri, None),
    }
}
