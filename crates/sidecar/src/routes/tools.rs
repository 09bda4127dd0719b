//! Everything under `/api/v1/tools`.

mod answer;
pub(super) mod batch_execute;
pub(super) mod execute;
pub(super) mod list;
mod once;
mod parameters;
pub(super) mod schemas;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::Deserialize;

use super::error::RequestError;
use crate::app::App;

/// The query of the two lists.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only the tools of this category.
    category: Option<String>,
}

impl FromRequestParts<App> for Filter {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let query = Query::from_request_parts(parts, app).await;
        let Query(filter) = query.map_err(|_| RequestError::BadQuery)?;
        Ok(filter)
    }
}
