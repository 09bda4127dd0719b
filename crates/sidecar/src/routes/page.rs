use pillion_core::compute;
use pillion_core::store::{Cursor, PageRequest};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::error::{RequestError, Result};
use super::parameters::parse_parameter;
use pillion_gateway::access::AccessGrant;

/// Maximum size of the stored JSON of a page, in bytes.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// The query parameters that select a page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// The `next` value of the previous page.
    after: Option<String>,
    /// Maximum number of entries, from 1 to 1000. Default 50. A page of large entries has fewer.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<String>,
}

impl PageQuery {
    /// Returns the page that the query requests.
    ///
    /// # Errors
    /// The limit is not a number in range.
    pub(super) fn request(self) -> Result<PageRequest> {
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
pub(super) async fn convert_records<R: Send + 'static, E: Send + 'static>(
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
pub(super) fn stored_json(text: &str) -> Box<RawValue> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => json.to_owned(),
        Err(_) => to_raw_value(text).unwrap_or_default(),
    }
}
