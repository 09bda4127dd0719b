use pillion_core::store::{Cursor, PageRequest};
use serde::Deserialize;

use super::error::RequestError;
use super::parameters::parsed;

/// The page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// The `next` value of the previous page.
    after: Option<String>,
    /// Maximum number of entries, from 1 to 1000. Default 50.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<String>,
}

impl PageQuery {
    /// Returns the requested page.
    ///
    /// # Errors
    /// The limit is not a number in range.
    pub(super) fn request(self) -> Result<PageRequest, RequestError> {
        let expected = format!("a number from 1 to {}", PageRequest::MAX_LIMIT);
        let limit = parsed("limit", self.limit.as_deref(), &expected)?;
        let limit = limit.unwrap_or(PageRequest::default().limit);
        if !(1..=PageRequest::MAX_LIMIT).contains(&limit) {
            return Err(RequestError::parameter("limit", expected));
        }
        Ok(PageRequest {
            after: self.after.map(Cursor::new),
            limit,
        })
    }
}
