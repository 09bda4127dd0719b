//! Pages of lists.

use pillion_core::compute;
use pillion_core::store::{Cursor, PageRequest};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{RequestError, Result};
use crate::parameter::parse_parameter;
use pillion_gateway::access::AccessGrant;

/// Maximum size of the stored JSON of a page, in bytes.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// The query parameters that select a page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The `next` value of the previous page.
    after: Option<String>,
    /// Maximum number of entries, from 1 to 1000. Default 50. A page of large entries has fewer.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<String>,
}

impl PageQuery {
    /// Returns the query for the first page, or for the page after the cursor `after`.
    #[must_use]
    pub fn after(after: Option<&str>) -> Self {
        Self {
            after: after.map(str::to_owned),
            limit: None,
        }
    }

    /// Returns the query for the first `limit` entries.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self {
            after: None,
            limit: Some(limit.to_string()),
        }
    }

    /// Returns the page that the query requests.
    ///
    /// # Errors
    /// The limit is not a number in range.
    pub fn request(self) -> Result<PageRequest> {
        let expected = format!("a number from 1 to {}", PageRequest::MAX_LIMIT);
        let limit = parse_parameter("limit", self.limit.as_deref(), &expected)?
            .unwrap_or(PageRequest::default().limit);
        if !(1..=PageRequest::MAX_LIMIT).contains(&limit) {
            return Err(RequestError::invalid_parameter("limit", expected));
        }
        Ok(PageRequest {
            after: self.after.map(Cursor::new),
            limit,
            max_bytes: MAX_PAGE_BYTES,
        })
    }
}

/// Converts records that contain JSON. Large JSON is converted on another thread.
pub async fn convert_records<R: Send + 'static, E: Send + 'static>(
    grant: &AccessGrant,
    records: Vec<R>,
    json_bytes: impl Fn(&R) -> usize,
    to_entry: impl Fn(R) -> E + Send + 'static,
) -> Vec<E> {
    let total_bytes = records.iter().map(json_bytes).sum();
    let convert = move || records.into_iter().map(to_entry).collect();
    compute::run(&grant.principal(), total_bytes, convert).await
}

/// Returns stored JSON after checking its syntax, without parsing it into values. Converts invalid
/// JSON to a JSON string.
pub fn stored_json(text: &str) -> Box<RawValue> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => json.to_owned(),
        Err(_) => to_raw_value(text).unwrap_or_default(),
    }
}
