use std::time::Duration;

/// An error that a service reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The service rejects the key, or the key lacks permission.
    WrongKey,
    /// The service received too many requests; contains how long to wait.
    Limit(Duration),
    /// The service rejects the request as invalid, with its message.
    Input(String),
    /// The service responded with a redirect.
    Redirect,
    /// Any other status, with the service's message.
    Status(u16, String),
}
