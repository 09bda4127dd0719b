use std::time::Duration;

/// An error that a service reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceFault {
    /// The service rejects the key, or the key lacks permission.
    RejectedKey,
    /// The service has received too many requests. Contains the time to wait before a retry.
    RateLimit(Duration),
    /// The service rejects the request as invalid. Contains the service's message.
    InvalidInput(String),
    /// The service responded with a redirect.
    Redirect,
    /// The service responded with any other error status. Contains the status and the service's
    /// message.
    ErrorStatus(u16, String),
}
