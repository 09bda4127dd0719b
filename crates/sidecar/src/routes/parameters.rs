use std::error::Error as _;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::RequestError;
use crate::app::App;

/// The query of a request. Its fields are texts, which [`parsed`] reads: so each refusal says what
/// the parameter must be.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned> Parameters<T> {
    /// What the query of an address says.
    ///
    /// # Errors
    /// [`RequestError::BadQuery`]: a parameter is there twice.
    pub(super) fn of(uri: &Uri) -> Result<Self, RequestError> {
        let query = Query::try_from_uri(uri);
        let Query(parameters) = query.map_err(|refusal| {
            // Without what it is called to axum.
            let reason = refusal.source().map(ToString::to_string);
            RequestError::BadQuery(reason.unwrap_or_else(|| refusal.to_string()))
        })?;
        Ok(Self(parameters))
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Parameters<T> {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, RequestError> {
        Self::of(&parts.uri)
    }
}

/// The value of a parameter, if it is given.
///
/// # Errors
/// [`RequestError::BadParameter`], where the text is not what is `wanted`.
pub(super) fn parsed<T: FromStr>(
    name: &'static str,
    text: Option<&str>,
    wanted: &str,
) -> Result<Option<T>, RequestError> {
    let value = text.map(str::parse).transpose();
    value.map_err(|_| RequestError::parameter(name, wanted))
}
