use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pillion_wire::Failure;

/// The error of a request to the sidecar. A failed tool call is not an error of the request: the
/// result of the call contains the failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no socket at the path, or no process listens on the socket.
    #[error("The sidecar is not running: no process listens on {}", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be used, because access is denied, the file is not a socket, or the path
    /// is too long.
    #[error("Cannot connect to the sidecar at {}: {source}{}", path.display(), permission_hint(path, source))]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The deadline passed before the sidecar responded. The tool may have run.
    #[error("The sidecar did not respond within {:.1}s", timeout.as_secs_f64())]
    Timeout {
        /// The timeout of the call, which has passed.
        timeout: Duration,
    },
    /// The deadline passed while one or more tools ran. The tools may still be running.
    #[error("{tools} returned no result within {:.1}s", timeout.as_secs_f64())]
    ToolTimeout {
        /// The tools that ran, formatted for the message, such as `Tool 'slow'`.
        tools: String,
        /// The timeout of the call.
        timeout: Duration,
    },
    /// The caller's interrupt hook ended the wait. The tool may have run.
    #[error("The call was interrupted")]
    Interrupted,
    /// The connection broke before the response was complete. The tool may have run, so the client
    /// does not send the call again by itself.
    #[error("The sidecar closed the connection before it sent a response: {source}")]
    Disconnected {
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The call was not sent, because the sidecar did not respond to an earlier request of the same
    /// batch. The tool has not run.
    #[error("The call was not sent: {reason}")]
    NotSent {
        /// The error of the earlier request.
        reason: String,
    },
    /// The response is longer than the client's limit.
    #[error("The sidecar's response is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The client's limit, in bytes.
        limit_bytes: u64,
    },
    /// The response is not valid HTTP.
    #[error("The sidecar's response is not valid HTTP: {source}")]
    Protocol {
        /// The error of the HTTP parser.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The response is not the expected JSON.
    #[error("The sidecar's response (HTTP status {status}) is not the expected JSON: {source}")]
    Decode {
        /// The HTTP status.
        status: u16,
        /// The error with its position in the JSON.
        #[source]
        source: serde_json::Error,
    },
    /// The arguments cannot be encoded as JSON.
    #[error("The arguments cannot be encoded as JSON: {source}")]
    Encode {
        /// The error of the encoder.
        #[source]
        source: serde_json::Error,
    },
    /// A value of the [`Caller`](crate::Caller), such as the user, contains characters that HTTP
    /// headers cannot contain, such as a line break.
    #[error("The value of the header {header} has characters that are not allowed in a header")]
    InvalidHeader {
        /// The name of the header.
        header: &'static str,
    },
    /// The sidecar responded with a status other than 2xx, for example because it rejected the
    /// request's body, size or route.
    #[error("{}", failure.error)]
    Status {
        /// The HTTP status of the response, which is not 2xx.
        status: u16,
        /// The body of the response.
        failure: Box<Failure>,
    },
}

impl ClientError {
    /// Returns the error for a response whose status is not 2xx.
    pub(crate) fn from_response(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(failure) => Self::Status { status, failure },
            Err(source) => Self::Decode { status, source },
        }
    }

    /// Converts the timeout of a request that runs the tools `names` to
    /// [`ClientError::ToolTimeout`], because a slow tool does not mean that the sidecar is
    /// unreachable. Other errors, and timeouts of requests without tools, stay unchanged.
    pub(crate) fn into_tool_timeout<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        const MAX_NAMES: usize = 3;
        const MAX_NAME_CHARS: usize = 128;
        let Self::Timeout { timeout } = self else {
            return self;
        };
        let quote = |name: &str| {
            let truncated_name: String = name.chars().take(MAX_NAME_CHARS).collect();
            format!("'{truncated_name}'")
        };
        let mut seen_names = HashSet::new();
        let distinct_names = names.into_iter().filter(|name| seen_names.insert(*name));
        let unique: Vec<&str> = distinct_names.collect();
        let omitted_count = unique.len().saturating_sub(MAX_NAMES);
        let mut quoted_names: Vec<String> = unique.into_iter().take(MAX_NAMES).map(quote).collect();
        if omitted_count > 0 {
            quoted_names.push(format!("{omitted_count} more"));
        }
        let tools = match (quoted_names.len(), quoted_names.pop()) {
            (_, None) => return Self::Timeout { timeout },
            (1, Some(name)) => format!("Tool {name}"),
            (_, Some(last_name)) => {
                format!("The tools {} and {last_name}", quoted_names.join(", "))
            }
        };
        Self::ToolTimeout { tools, timeout }
    }

    /// Returns whether no sidecar is running, so that nothing was sent.
    #[must_use]
    pub fn is_not_running(&self) -> bool {
        matches!(self, Self::NotRunning { .. })
    }

    /// Returns whether the deadline passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::ToolTimeout { .. })
    }

    /// Returns whether the sidecar did not respond at all. Further requests would probably fail in
    /// the same way.
    pub(crate) fn has_no_response(&self) -> bool {
        self.is_timeout()
            || matches!(
                self,
                Self::NotRunning { .. } | Self::Connect { .. } | Self::Disconnected { .. }
            )
    }

    /// Returns the error code, such as `unavailable`.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::NotRunning { .. }
            | Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::NotSent { .. } => "unavailable",
            Self::Timeout { .. } | Self::ToolTimeout { .. } => "timeout",
            Self::Interrupted => "cancelled",
            Self::TooLarge { .. } | Self::Protocol { .. } | Self::Decode { .. } => "internal_error",
            Self::Encode { .. } | Self::InvalidHeader { .. } => "invalid_input",
            Self::Status { failure, .. } => &failure.error_code,
        }
    }
}

/// Returns a hint, to append to the error message, about the file permissions that prevent the
/// connection; empty for other errors.
fn permission_hint(path: &Path, source: &io::Error) -> &'static str {
    if source.kind() != io::ErrorKind::PermissionDenied {
        return "";
    }
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            ": a directory on the path does not give this user search permission (x)"
        }
        _ => {
            ": the socket's permissions allow only the sidecar's user and root, and the members \
            of socket.group if it is set"
        }
    }
}
