use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use url::Url;

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// Error for a redirect that is not followed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server redirects to another origin or too many times: Pillion does not follow the \
    redirect"
)]
struct RedirectRejected;

/// Returns a policy that follows redirects that keep the method (307, 308) and stay within the
/// origin, so that credentials are not sent elsewhere. A redirect that would turn a POST into a GET
/// is not followed; the redirect's response is returned.
pub(super) fn same_origin_only() -> Policy {
    Policy::custom(|attempt: Attempt<'_>| {
        let leaves_origin = attempt
            .previous()
            .first()
            .is_none_or(|url| url.origin() != attempt.url().origin());
        if leaves_origin || attempt.previous().len() > MAX_REDIRECTS {
            attempt.error(RedirectRejected)
        } else if keeps_method(attempt.status()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// What [`DirectClient`](super::DirectClient) does with a response, by the rules of
/// [`same_origin_only`].
pub(super) enum Redirect {
    /// The client returns the response.
    NotRedirected,
    /// The client follows the redirect to this URL.
    SameOrigin(Url),
    /// The client rejects the redirect, because the redirect leaves the origin.
    Rejected,
}

impl Redirect {
    /// Decides what to do with the response from `url`.
    pub(super) fn for_response(url: &Url, status: StatusCode, headers: &HeaderMap) -> Self {
        if !keeps_method(status) && !matches!(status.as_u16(), 301..=303) {
            return Self::NotRedirected;
        }
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(Ok(target)) = location.map(|location| url.join(location)) else {
            return Self::NotRedirected;
        };
        if target.origin() != url.origin() {
            Self::Rejected
        } else if keeps_method(status) {
            Self::SameOrigin(target)
        } else {
            Self::NotRedirected
        }
    }
}

fn keeps_method(status: StatusCode) -> bool {
    matches!(status.as_u16(), 307 | 308)
}
