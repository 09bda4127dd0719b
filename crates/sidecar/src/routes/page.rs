use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use pillion_core::store::{Cursor, PageRequest};
use serde::Deserialize;

use super::error::RequestError;
use crate::app::App;

/// Which page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedPage {
    /// The `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1000; 50 when it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl FromRequestParts<App> for WantedPage {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let query = Query::from_request_parts(parts, app).await;
        let Query(page) = query.map_err(|_| RequestError::BadQuery)?;
        Ok(page)
    }
}

impl WantedPage {
    /// The page that is asked for.
    ///
    /// # Errors
    /// The limit is none.
    pub(super) fn request(self) -> Result<PageRequest, RequestError> {
        let limit = self.limit.unwrap_or(PageRequest::default().limit);
        if !(1..=PageRequest::LARGEST).contains(&limit) {
            return Err(RequestError::BadParameter { name: "limit" });
        }
        Ok(PageRequest {
            after: self.after.map(Cursor::new),
            limit,
        })
    }
}
