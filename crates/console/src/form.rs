//! The fields of a form.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::PageError;

/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 10_000;

/// The fields of a form or a query, in order. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormFields(Arc<Vec<(String, String)>>);

impl FormFields {
    /// Parses the media type `application/x-www-form-urlencoded`. Returns `None` if there are more
    /// than [`MAX_FIELDS`] fields.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(body) {
            if fields.len() == MAX_FIELDS {
                return None;
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Some(Self(Arc::new(fields)))
    }

    /// Returns the first value of a field; `None` if the form does not have the field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(field, _)| field == name)?;
        Some(value)
    }

    /// Returns the trimmed value of a field; `None` if the field is absent or empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    /// Returns all fields.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Extracts the form that [`admit`](crate::admission::admit) has read.
impl<S: Sync> FromRequestParts<S> for FormFields {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, PageError> {
        parts
            .extensions
            .get()
            .cloned()
            .ok_or(PageError::InvalidForm("it has no fields"))
    }
}

/// The query of the requested URL.
pub(crate) struct QueryFields(pub(crate) FormFields);

impl<S: Sync> FromRequestParts<S> for QueryFields {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(
            FormFields::parse(query.as_bytes()).unwrap_or_default(),
        ))
    }
}
