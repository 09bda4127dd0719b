/// The style of error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MessageStyle {
    /// Messages such as `MCP Error -32600: Invalid Request` or `HTTP 500: Internal Server Error`.
    #[default]
    Http,
    /// Messages such as `MCP Error (-32600): Invalid Request` or `MCP SSE request failed with HTTP
    /// 500`. The message names the detected transport, by default SSE: `MCP Streamable HTTP request
    /// failed with HTTP 500`.
    Sse,
}
