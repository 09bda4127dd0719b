/// What kind of failure an error is, whatever the transport: enough to decide whether to retry, to
/// wait, or to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The request or the configuration is invalid; a retry cannot help.
    InvalidInput,
    /// The server has no tool, resource, prompt or method of that name.
    NotFound,
    /// The server limits the rate of requests; see [`McpError::retry_after`](crate::McpError).
    RateLimited,
    /// The operation exceeded its timeout.
    Timeout,
    /// The server, its authorization server or the egress policy denied the request.
    Denied,
    /// The server cannot be reached or cannot answer at present.
    Unavailable,
    /// The server cancelled the operation.
    Cancelled,
    /// The server failed, or broke the protocol.
    Internal,
}
