use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use pillion_core::json_values;
use serde_json::Value;

use super::ServiceFault;

/// The default time to wait before a retry, if the service specifies none.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Maximum time before a retry that a failure reports to the caller, even if the service requests a
/// longer time.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// The response of a service.
#[derive(Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The JSON body; null if an unsuccessful response is not JSON.
    pub(crate) body: Value,
}

/// Error for a successful response whose body is not JSON.
#[derive(Debug)]
pub(super) struct NoJson;

impl ServiceResponse {
    pub(super) fn from_parts(
        status: StatusCode,
        headers: HeaderMap,
        body: &[u8],
    ) -> Result<Self, NoJson> {
        let parsed_body = match json_values::from_slice(body) {
            Ok(body) => body,
            Err(_) if status.is_success() => return Err(NoJson),
            Err(_) => Value::Null,
        };
        Ok(Self {
            status,
            headers,
            body: parsed_body,
        })
    }

    /// Returns the fault that the HTTP status indicates, or `None` for a success. `message` is the
    /// error message in the body.
    pub(crate) fn find_fault(&self, message: &str) -> Option<ServiceFault> {
        let status = self.status;
        if status.is_success() {
            return None;
        }
        Some(match status.as_u16() {
            401 | 403 => ServiceFault::RejectedKey,
            429 => ServiceFault::RateLimit(self.retry_after()),
            _ if status.is_redirection() => ServiceFault::Redirect,
            number => ServiceFault::ErrorStatus(number, message.to_owned()),
        })
    }

    /// Returns the time to wait before a retry. This is the value of `Retry-After`, which is a
    /// number of seconds or a date (RFC 9110), or else one minute.
    pub(crate) fn retry_after(&self) -> Duration {
        self.headers
            .get(http::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(parse_retry_after)
            .unwrap_or(DEFAULT_RETRY_AFTER)
    }

    /// Returns the string in a member of the body; empty if the member is not a string.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let text = self.body.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    }
}

fn parse_retry_after(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let date = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp();
    let now = Timestamp::try_from(SystemTime::now()).ok()?;
    let seconds = date.as_second().saturating_sub(now.as_second());
    let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Some(duration.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_retry_after_is_seconds_or_a_date() {
        assert_eq!(parse_retry_after("120"), Some(Duration::from_secs(120)));
        assert_eq!(
            parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(
            parse_retry_after("Fri, 21 Oct 2095 07:28:00 GMT"),
            Some(MAX_RETRY_AFTER)
        );
        for invalid_value in ["", "soon", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(parse_retry_after(invalid_value), None, "{invalid_value}");
        }
    }
}
