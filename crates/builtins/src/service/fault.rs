use std::time::Duration;

/// An error that a service reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The service rejects the key, or the key lacks permission.
    WrongKey,
    /// The service has received too many requests. Contains how long to wait.
    Limit(Duration),
    /// The service rejects the request as invalid. Contains the service's message.
    Input(String),
    /// The service responded with a redirect.
    Redirect,
    /// The service responded with any other error status. Contains the status and the service's
    /// message.
    Status(u16, String),
}
