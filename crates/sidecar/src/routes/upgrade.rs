//! HTTP connections that are upgraded to another protocol.

use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// Returns whether a request asks to upgrade its connection to `protocol`.
pub(super) fn is_requested(headers: &HeaderMap, protocol: &str) -> bool {
    let names = |header, token: &str| {
        let values = headers.get_all(header).into_iter();
        let mut words = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        words.any(|word| word.trim().eq_ignore_ascii_case(token))
    };
    names(CONNECTION, "upgrade") && names(UPGRADE, protocol)
}

/// Returns the response after which the connection uses `protocol`.
pub(super) fn switching(protocol: &'static str) -> Response {
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    response
}
