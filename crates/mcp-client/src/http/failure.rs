use std::time::Duration;

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use pillion_egress::{EgressError, was_refused};
use tokio::time::timeout;

use super::answer::read_body;
use crate::{McpErrorKind, RpcError, ServerConfigError};

/// Returns the error for a request that the full HTTP client could not send.
pub(crate) fn sending(error: reqwest::Error) -> McpErrorKind {
    if let Some(refusal) = EgressError::cause_of(&error) {
        McpErrorKind::Egress(refusal.clone())
    } else if error.is_redirect() {
        McpErrorKind::Redirect
    } else if error.is_connect() || was_refused(&error) {
        // Only the origin, because the rest may contain secrets.
        let origin = error.url().map(|url| url.origin().ascii_serialization());
        let origin = origin.and_then(|origin| origin.parse().ok());
        let error = error.without_url();
        McpErrorKind::Connect(match origin {
            Some(origin) => error.with_url(origin),
            None => error,
        })
    } else {
        McpErrorKind::Broken(error.without_url().into())
    }
}

/// Returns the response if its status is a success.
pub(crate) async fn check_status(
    response: reqwest::Response,
) -> Result<reqwest::Response, McpErrorKind> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(Box::pin(status_error(response)).await)
    }
}

/// Creates the error for a response's status, from its head and body.
async fn status_error(mut response: reqwest::Response) -> McpErrorKind {
    const MAX_REASON_LEN: usize = 64 * 1024;
    const BODY_TIMEOUT: Duration = Duration::from_secs(2);
    let text = |header: Option<&HeaderValue>| {
        let text = header?.to_str().ok()?;
        Some(text.chars().take(1024).collect::<String>())
    };
    let headers = response.headers();
    let seconds = text(headers.get(RETRY_AFTER)).and_then(|text| text.trim().parse().ok());
    let challenge = text(headers.get(WWW_AUTHENTICATE));
    let status = response.status().as_u16();
    let body = timeout(BODY_TIMEOUT, read_body(&mut response, MAX_REASON_LEN)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    McpErrorKind::HttpStatus {
        status,
        retry_after: seconds.map(Duration::from_secs),
        challenge,
        rpc: RpcError::of_error_body(&body).map(Box::new),
    }
}

/// Returns whether an error is one of these HTTP statuses.
pub(crate) fn is_status(error: &McpErrorKind, statuses: &[StatusCode]) -> bool {
    matches!(error, McpErrorKind::HttpStatus { status, .. }
        if statuses.iter().any(|wanted| wanted.as_u16() == *status))
}

/// Returns the error for completing an authorization at a server without OAuth.
pub(crate) fn not_oauth() -> McpErrorKind {
    ServerConfigError::OAuth { key: "type" }.into()
}
