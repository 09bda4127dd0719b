use http::StatusCode;
use pillion_egress::{EgressError, suggests_restart};

use super::rejection::Rejection;
use crate::{McpErrorKind, ServerConfigError};

/// Returns the error for a request that could not be sent.
pub(crate) fn send_error(error: reqwest::Error) -> McpErrorKind {
    if let Some(egress_error) = EgressError::cause_of(&error) {
        McpErrorKind::Egress(egress_error.clone())
    } else if error.is_redirect() {
        McpErrorKind::Redirect
    } else if error.is_connect() || suggests_restart(&error) {
        // The error names only the URL's origin, because the rest of the URL may contain secrets.
        let origin = error
            .url()
            .and_then(|url| url.origin().ascii_serialization().parse().ok());
        let without_url = error.without_url();
        McpErrorKind::ConnectionFailed(match origin {
            Some(origin) => without_url.with_url(origin),
            None => without_url,
        })
    } else {
        McpErrorKind::ConnectionBroken(error.without_url().into())
    }
}

/// Returns the response if its status is a success, otherwise the error for its status.
pub(crate) async fn check_status(
    response: reqwest::Response,
) -> Result<reqwest::Response, McpErrorKind> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(Box::pin(Rejection::read(response, None)).await.error)
    }
}

/// Returns whether an error is an HTTP error with one of the given statuses.
pub(crate) fn has_status(error: &McpErrorKind, statuses: &[StatusCode]) -> bool {
    matches!(error, McpErrorKind::HttpStatus { status, .. }
        if statuses.iter().any(|expected| expected.as_u16() == *status))
}

/// Returns the error for completing an authorization with a server that does not use OAuth.
pub(crate) fn not_oauth_error() -> McpErrorKind {
    ServerConfigError::OAuth { key: "type" }.into()
}
