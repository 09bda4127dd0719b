//! Stored tool results, which were too large for their responses.

use std::io;
use std::ops::Range;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_wire::route;

use super::extract::Caller;
use super::parameters::PathParameter;
use crate::app::App;
use pillion_gateway::access::{AccessGrant, Scope};
use pillion_gateway::client_text::truncate_input;
use pillion_management::error::{NOT_FOUND, Result, UNAVAILABLE, route_error};

route_error! {
    /// The reason why a stored result cannot be returned.
    #[derive(Debug, thiserror::Error)]
    enum ResultError {
        #[error(
            "There is no stored result '{}': the result has expired, belongs to another user, or \
             never existed",
            truncate_input(id)
        )]
        UnknownResult { id: String } => NOT_FOUND,
        #[error("The stored result '{}' cannot be read: see the sidecar's log", truncate_input(id))]
        Unreadable { id: String } => UNAVAILABLE,
    }
}

/// Fetch a stored large result.
///
/// The ID is in `metadata.stored_result` of the call's result. The stored result is available to
/// the caller of the tool, for the same user, and to tokens with the scope `admin`.
#[utoipa::path(
    get,
    path = route::FETCH_RESULT.path,
    params(
        ("id" = String, Path, description = "The result's ID"),
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the call ran"),
        ("range" = Option<String>, Header, description = "One byte range, such as `bytes=0-1023`"),
    ),
    responses(
        (status = 200, description = "The whole result: text unchanged, anything else as JSON", content_type = "*/*"),
        (status = 206, description = "The requested range", content_type = "*/*"),
        (status = 400, description = "A header is invalid"),
        (status = 404, description = "Result not found"),
        (status = 416, description = "The range is beyond the end of the result"),
        (status = 503, description = "The stored result is not readable"),
    )
)]
pub(super) async fn fetch(
    State(app): State<App>,
    grant: Option<Extension<AccessGrant>>,
    PathParameter(id): PathParameter,
    Caller { context, .. }: Caller,
    headers: HeaderMap,
) -> Result<Response> {
    let unknown_error = || ResultError::UnknownResult { id: id.clone() };
    let results = app.results().ok_or_else(unknown_error)?;
    let unreadable_error = |error: io::Error| {
        tracing::error!(result = id, %error, "Cannot read a stored result");
        ResultError::Unreadable { id: id.clone() }
    };
    let stored_result = results.find(&id).await.map_err(unreadable_error)?;
    let may_see_all = grant.is_some_and(|Extension(grant)| grant.allows(Scope::Admin));
    let visible_result = stored_result
        .filter(|result| may_see_all || result.header.belongs_to(&context))
        .ok_or_else(unknown_error)?;

    let length = visible_result.bytes;
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let requested_range = match range.and_then(|range| parse_range(range, length)) {
        None => None,
        Some(Some(part)) => Some(part),
        Some(None) => {
            let content_range = [(CONTENT_RANGE, format!("bytes */{length}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, content_range).into_response());
        }
    };
    let media_type = visible_result.header.media_type.clone();
    let selected_range = requested_range.clone().unwrap_or(0..length);
    let selected_bytes = selected_range.end - selected_range.start;
    let content = visible_result.read(selected_range).await;
    let mut response = Response::builder()
        .header(CONTENT_TYPE, media_type)
        .header(CONTENT_LENGTH, selected_bytes)
        .header(ACCEPT_RANGES, "bytes")
        .header(ETAG, format!("\"{}\"", id.to_ascii_lowercase()))
        .header(CACHE_CONTROL, "private")
        .header(X_CONTENT_TYPE_OPTIONS, "nosniff");
    if let Some(Range { start, end }) = requested_range {
        let content_range = format!("bytes {start}-{}/{length}", end - 1);
        response = response
            .status(StatusCode::PARTIAL_CONTENT)
            .header(CONTENT_RANGE, content_range);
    }
    let body = Body::from_stream(content.map_err(unreadable_error)?);
    response.body(body).map_err(|error| {
        tracing::error!(%error, "Cannot create the response with a stored result");
        ResultError::Unreadable { id: id.clone() }.into()
    })
}

/// Parses a `Range` header with one byte range (RFC 9110, section 14.2); `Some(None)` if the range
/// cannot be satisfied. An invalid header or several ranges count as no range.
fn parse_range(range: &str, length: u64) -> Option<Option<Range<u64>>> {
    let (first_text, last_text) = range.strip_prefix("bytes=")?.trim().split_once('-')?;
    let parse_number = |text: &str| text.parse::<u64>().ok();
    let part = if first_text.is_empty() {
        length.saturating_sub(parse_number(last_text)?)..length
    } else {
        let start = parse_number(first_text)?;
        let end = match last_text {
            "" => length,
            text => parse_number(text)
                .filter(|last_index| *last_index >= start)?
                .saturating_add(1),
        };
        start..end.min(length)
    };
    Some((part.start < part.end).then_some(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood() {
        for (range, part) in [
            ("bytes=0-3", Some(Some(0..4))),
            ("bytes=8-", Some(Some(8..10))),
            ("bytes=8-99", Some(Some(8..10))),
            ("bytes=-3", Some(Some(7..10))),
            ("bytes=-99", Some(Some(0..10))),
            ("bytes=10-", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=3-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=+1-2x", None),
            ("lines=0-3", None),
            ("bytes=", None),
        ] {
            assert_eq!(parse_range(range, 10), part, "{range}");
        }
        assert_eq!(
            parse_range("bytes=0-18446744073709551615", 10),
            Some(Some(0..10))
        );
        assert_eq!(parse_range("bytes=0-", 0), Some(None));
    }
}
