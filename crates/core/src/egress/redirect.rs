use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use url::Url;

/// How many redirects one request may follow.
const MOST_REDIRECTS: usize = 5;

/// Why a redirect is not followed.
#[derive(Debug, thiserror::Error)]
#[error("a redirect to another place was refused")]
struct Refused;

/// Follows a redirect that keeps the method (307, 308) and stays within the origin, so that
/// no credential travels elsewhere. One that would turn a POST into a GET is not followed
/// and counts as its status.
pub(super) fn same_origin_only() -> Policy {
    Policy::custom(|attempt: Attempt<'_>| {
        let leaves = attempt
            .previous()
            .first()
            .is_none_or(|first| first.origin() != attempt.url().origin());
        if leaves || attempt.previous().len() > MOST_REDIRECTS {
            attempt.error(Refused)
        } else if keeps_method(attempt.status()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// What the answer of a server that is asked directly means under the same rules.
pub(super) enum Redirect {
    /// It is none, or counts as its status.
    None,
    /// The request goes there next.
    Within(Url),
    /// It would leave the origin.
    Refused,
}

impl Redirect {
    /// The redirect that the answer of `url` is.
    pub(super) fn of(url: &Url, status: StatusCode, headers: &HeaderMap) -> Self {
        if !keeps_method(status) && !matches!(status.as_u16(), 301..=303) {
            return Self::None;
        }
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(Ok(next)) = location.map(|location| url.join(location)) else {
            return Self::None;
        };
        match next.origin() == url.origin() {
            false => Self::Refused,
            true if keeps_method(status) => Self::Within(next),
            true => Self::None,
        }
    }
}

fn keeps_method(status: StatusCode) -> bool {
    matches!(status.as_u16(), 307 | 308)
}
