use http::StatusCode;
use pillion_egress::{EgressError, suggests_restart};

use super::rejection::Rejection;
use crate::{McpErrorKind, ServerConfigError};

/// Returns the error for a request that the full HTTP client could not send.
pub(crate) fn sending(error: reqwest::Error) -> McpErrorKind {
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
        McpErrorKind::Connect(match origin {
            Some(origin) => without_url.with_url(origin),
            None => without_url,
        })
    } else {
        McpErrorKind::Broken(error.without_url().into())
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

/// Returns whether an error is one of these HTTP statuses.
pub(crate) fn is_status(error: &McpErrorKind, statuses: &[StatusCode]) -> bool {
    matches!(error, McpErrorKind::HttpStatus { status, .. }
        if statuses.iter().any(|known| known.as_u16() == *status))
}

/// Returns the error for completing an authorization with a server that does not use OAuth.
pub(crate) fn not_oauth() -> McpErrorKind {
    ServerConfigError::OAuth { key: "type" }.into()
}
