use std::convert::Infallible;
use std::error::Error as _;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::app::App;
use pillion_management::error::{INVALID_INPUT, RequestError, Result, route_error};

route_error! {
    /// The query of a URI cannot be parsed.
    #[derive(Debug, thiserror::Error)]
    #[error("The query is malformed: {0}")]
    pub(super) struct MalformedQuery(String) => INVALID_INPUT
}

/// The query parameters of a request. The fields are strings, which [`parse_parameter`] converts,
/// so that each error names the expected value of the parameter.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned> Parameters<T> {
    /// Reads the query of a URI.
    ///
    /// # Errors
    /// [`MalformedQuery`]: a parameter is repeated.
    pub(super) fn from_uri(uri: &Uri) -> Result<Self, MalformedQuery> {
        let query = Query::try_from_uri(uri);
        let Query(parameters) = query.map_err(|rejection| {
            // The error has the message of the rejection's source, because the rejection's own
            // message has axum's prefix.
            let reason = rejection.source().map(ToString::to_string);
            MalformedQuery(reason.unwrap_or_else(|| rejection.to_string()))
        })?;
        Ok(Self(parameters))
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Parameters<T> {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self> {
        Ok(Self::from_uri(&parts.uri)?)
    }
}

/// A parameter of the path. If the path is not UTF-8, the parameter is empty and names nothing.
pub(super) struct PathParameter(pub(super) String);

impl FromRequestParts<App> for PathParameter {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let path = Path::from_request_parts(parts, app).await;
        Ok(Self(path.map_or_else(
            |_| String::new(),
            |Path(parameter)| parameter,
        )))
    }
}
