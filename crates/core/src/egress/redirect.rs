use reqwest::redirect::{Attempt, Policy};

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
        } else if matches!(attempt.status().as_u16(), 307 | 308) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}
