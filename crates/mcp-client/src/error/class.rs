/// The class of a failure, whatever the transport. Tells callers whether to retry, to wait, or to
/// give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The request or the configuration is invalid; a retry fails as well.
    InvalidInput,
    /// The server has no tool, resource, prompt or method of that name.
    NotFound,
    /// The server rejected the request because of a rate limit; see
    /// [`McpError::retry_after`](crate::McpError::retry_after).
    RateLimited,
    /// The operation exceeded its timeout.
    Timeout,
    /// The server, its authorization server or the egress policy denied the request.
    Denied,
    /// The server cannot be reached, or cannot respond at present.
    Unavailable,
    /// The server cancelled the operation.
    Cancelled,
    /// The server failed, or broke the protocol.
    Internal,
}
