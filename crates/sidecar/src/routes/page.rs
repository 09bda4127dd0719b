use pillion_core::store::{Cursor, PageRequest};
use serde::Deserialize;

use super::error::RequestError;
use super::parameters::parsed;

/// Which page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedPage {
    /// The `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1000; 50 when it is left out.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<String>,
}

impl WantedPage {
    /// The page that is asked for.
    ///
    /// # Errors
    /// The limit is none.
    pub(super) fn request(self) -> Result<PageRequest, RequestError> {
        let wanted = format!("a number from 1 to {}", PageRequest::LARGEST);
        let limit = parsed("limit", self.limit.as_deref(), &wanted)?;
        let limit = limit.unwrap_or(PageRequest::default().limit);
        if !(1..=PageRequest::LARGEST).contains(&limit) {
            return Err(RequestError::parameter("limit", wanted));
        }
        Ok(PageRequest {
            after: self.after.map(Cursor::new),
            limit,
        })
    }
}
