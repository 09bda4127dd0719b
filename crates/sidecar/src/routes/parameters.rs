use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::RequestError;
use crate::app::App;

/// The query of a request.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned> Parameters<T> {
    /// What the query of an address says.
    ///
    /// # Errors
    /// [`RequestError::BadQuery`].
    pub(super) fn of(uri: &Uri) -> Result<Self, RequestError> {
        let query = Query::try_from_uri(uri);
        let Query(parameters) = query.map_err(|_| RequestError::BadQuery)?;
        Ok(Self(parameters))
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Parameters<T> {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, RequestError> {
        Self::of(&parts.uri)
    }
}
