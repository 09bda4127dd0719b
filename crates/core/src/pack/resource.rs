use async_trait::async_trait;
use serde::Serialize;

use super::ChangeListener;
use crate::store::StoreError;
use crate::tool::{CallContext, ErrorCode};

/// A resource in a list, in the words of MCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Where it is read.
    pub uri: String,
    /// What programs call it.
    pub name: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The type of its contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl Resource {
    /// One that says nothing more of itself.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            description: None,
            mime_type: None,
        }
    }

    /// Says what it is.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Says that its contents are JSON.
    #[must_use]
    pub fn of_json(mut self) -> Self {
        self.mime_type = Some("application/json".to_owned());
        self
    }
}

/// The resources of one kind, as a URI template (RFC 6570).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// Such as `transcript://scene/{id}`.
    pub uri_template: String,
    /// What programs call it.
    pub name: String,
    /// What its resources are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The type of their contents, where all have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// What a resource holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContents {
    /// The type of it.
    pub mime_type: String,
    /// It.
    pub body: ResourceBody,
}

/// Contents of a resource, as text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl ResourceContents {
    /// A value of JSON.
    #[must_use]
    pub fn json(value: &serde_json::Value) -> Self {
        Self {
            mime_type: "application/json".to_owned(),
            body: ResourceBody::Text(value.to_string()),
        }
    }
}

/// Who reads.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    /// On whose behalf, and through which door.
    pub context: &'a CallContext,
    /// The user that whoever reads is confined to: what belongs to other users is not for it.
    pub confined_to: Option<&'a str>,
}

impl Reader<'_> {
    /// Whether what belongs to that user, or to none, is for this reader.
    #[must_use]
    pub fn may_see(&self, user: Option<&str>) -> bool {
        match (self.confined_to, user) {
            (Some(confined_to), Some(user)) => confined_to == user,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }
}

/// Why a resource cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResourceError {
    /// The reason, from the fixed set.
    pub code: ErrorCode,
    /// The reason in words, without internals.
    pub message: String,
}

impl ResourceError {
    /// There is no such resource.
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
        tracing::warn!(%error, "A resource cannot be read");
        Self {
            code: error.code(),
            message: "The store cannot be read".to_owned(),
        }
    }
}

/// Something that has resources.
#[async_trait]
pub trait ResourceProvider: Send + Sync {
    /// The kinds of resources that it has beside those in its list.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Whether a URI is one of its own: then nobody else is asked for it. It may be that of a
    /// resource that is not there yet; who subscribes hears of it when it comes.
    fn owns(&self, uri: &str) -> bool;

    /// The resources that there are, no more than somebody would want to look through.
    ///
    /// # Errors
    /// [`ResourceError`]; the lists of others are shown then all the same.
    async fn list(&self, reader: Reader<'_>) -> Result<Vec<Resource>, ResourceError>;

    /// What one of its own holds.
    ///
    /// # Errors
    /// [`ResourceError`]: `not_found` where there is none.
    async fn read(&self, uri: &str, reader: Reader<'_>) -> Result<ResourceContents, ResourceError>;

    /// Hears of changes from now on; none where nothing ever changes.
    fn changes(&self) -> Option<ChangeListener> {
        None
    }
}

/// A URI without its query, and that: `a://b?c` is `a://b` and `c`.
#[must_use]
pub fn without_query(uri: &str) -> (&str, Option<&str>) {
    match uri.split_once('?') {
        Some((uri, query)) => (uri, Some(query)),
        None => (uri, None),
    }
}
