//! Lists with an `ETag`, for clients that poll. If a list is unchanged, the response has status
//! 304.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::digest::sha256_hex;
use serde::Serialize;

use crate::app::App;
use pillion_management::error::{InternalError, Result};

/// The entity tags of the request's `If-None-Match` header.
pub(super) struct EntityTags(Vec<HeaderValue>);

impl FromRequestParts<App> for EntityTags {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Infallible> {
        let values = parts.headers.get_all(IF_NONE_MATCH).iter();
        Ok(Self(values.cloned().collect()))
    }
}

impl EntityTags {
    /// Returns `list` with its `ETag`, or 304 without a body if the client already has the list.
    ///
    /// # Errors
    /// [`InternalError`] if the list cannot be serialized.
    pub(super) fn respond(&self, list: &impl Serialize) -> Result<Response> {
        let body = serde_json::to_vec(list).map_err(|error| {
            tracing::error!(%error, "Cannot serialize a response");
            InternalError
        })?;
        let tag = compute_tag(&body);
        let mut response = if self.has_tag(&tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let json_type = HeaderValue::from_static("application/json");
            ([(CONTENT_TYPE, json_type)], body).into_response()
        };
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(ETAG, tag);
        }
        Ok(response)
    }

    fn has_tag(&self, tag: &str) -> bool {
        let values = self.0.iter().filter_map(|value| value.to_str().ok());
        let mut tags = values.flat_map(|value| value.split(',').map(str::trim));
        tags.any(|item| item == "*" || item.trim_start_matches("W/") == tag)
    }
}

/// Returns the entity tag of a body: a hash of its bytes.
fn compute_tag(body: &[u8]) -> String {
    format!("\"{}\"", &sha256_hex(body)[..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i4_an_etag_matches_in_lists_and_as_weak_validator() {
        let tag = compute_tag(b"[]");
        let known = |values: &[&str]| {
            let values = values.iter().map(|value| value.parse().unwrap());
            EntityTags(values.collect()).has_tag(&tag)
        };
        assert!(known(&["*"]));
        assert!(known(&["\"other\"", &format!("\"a\" , W/{tag}")]));
        assert!(!known(&[]));
        assert!(!known(&["\"other\"", tag.trim_matches('"')]));
    }
}
