//! HTTP connections that are upgraded to another protocol.

use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::error::{DENIED, UNAVAILABLE, UPGRADE_REQUIRED, route_error};
use crate::app::App;

route_error! {
    /// Why a connection is not upgraded.
    #[derive(Debug, thiserror::Error)]
    pub(super) enum UpgradeError {
        #[error("Only a process that connects over the Unix socket can {action}")]
        NotUnixSocket { action: &'static str } => DENIED,
        #[error("This route needs the headers Connection: Upgrade and Upgrade: {protocol}")]
        MissingHeaders { protocol: &'static str } => UPGRADE_REQUIRED,
        #[error("This sidecar is shutting down")]
        Draining => UNAVAILABLE,
        #[error("Too many clients have upgraded their connections: the limit is http.max_connections")]
        TooManyClients => UNAVAILABLE,
    }
}

/// Checks that a request asks to upgrade its connection to `protocol`, and that the sidecar keeps
/// running.
pub(super) fn check(
    app: &App,
    headers: &HeaderMap,
    protocol: &'static str,
) -> Result<(), UpgradeError> {
    if !is_requested(headers, protocol) {
        return Err(UpgradeError::MissingHeaders { protocol });
    }
    if app.process().is_draining() {
        return Err(UpgradeError::Draining);
    }
    Ok(())
}

/// Checks that one more client may upgrade its connection.
pub(super) fn check_limit(app: &App) -> Result<(), UpgradeError> {
    if app.process().clients.len() >= app.http().max_connections.get() {
        return Err(UpgradeError::TooManyClients);
    }
    Ok(())
}

/// Returns whether a request asks to upgrade its connection to `protocol`.
fn is_requested(headers: &HeaderMap, protocol: &str) -> bool {
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
