use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pillion_wire::Failure;

/// Why a call through the sidecar has no answer. A tool that failed is not among these: it
/// has an answer that says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no socket at the path, or nobody listens on it.
    #[error("The sidecar is not running: nobody listens on {}", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be used: no permission, not a socket, too long a path.
    #[error("Cannot connect to the sidecar at {}: {source}{}", path.display(), rule(source))]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The deadline passed first. The tool may have run.
    #[error("The sidecar did not answer within {:.1}s", after.as_secs_f64())]
    Timeout {
        /// The time the call was given.
        after: Duration,
    },
    /// The deadline passed while one or more tools ran. The tools may still run.
    #[error("{tools} gave no result within {:.1}s", after.as_secs_f64())]
    ToolTimeout {
        /// The tools that ran, as text: `Tool 'slow'`.
        tools: String,
        /// The deadline of the call.
        after: Duration,
    },
    /// The caller's interrupt hook ended the wait. The tool may have run.
    #[error("The call was interrupted")]
    Interrupted,
    /// The connection broke before the answer was complete. The tool may have run, so the
    /// client does not send the call again by itself.
    #[error("The sidecar closed the connection before it had answered: {source}")]
    Disconnected {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The call was not sent, because the sidecar did not answer an earlier request of the same
    /// batch. The tool has not run.
    #[error("The call was not sent: {reason}")]
    NotSent {
        /// The error of the earlier request.
        reason: String,
    },
    /// The answer is longer than the client's limit.
    #[error("The sidecar's answer is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// What came back is not HTTP as it should be.
    #[error("The sidecar's answer is not valid HTTP: {source}")]
    Protocol {
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What came back is not the JSON it should be.
    #[error("The sidecar's answer (HTTP status {status}) is not the JSON it should be: {source}")]
    Decode {
        /// The HTTP status.
        status: u16,
        /// Where the JSON goes wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The arguments cannot be written as JSON.
    #[error("The arguments cannot be written as JSON: {source}")]
    Encode {
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A user, a channel or a request id that no header can carry, such as one with a line
    /// break in it.
    #[error("The value for the header {header} has characters that no header can carry")]
    InvalidHeader {
        /// The header.
        header: &'static str,
    },
    /// The sidecar refused the request as such: its body, its size, its route.
    #[error("{}", failure.error)]
    Status {
        /// The HTTP status, not 200.
        status: u16,
        /// The body.
        failure: Box<Failure>,
    },
}

impl ClientError {
    /// Converts a timeout of a request that runs these tools: a slow tool does not mean that the
    /// sidecar is unreachable.
    pub(crate) fn while_running<'a>(self, tools: impl IntoIterator<Item = &'a str>) -> Self {
        const MAX_SHOWN: usize = 3;
        const MAX_NAME_CHARS: usize = 128;
        let Self::Timeout { after } = self else {
            return self;
        };
        let quote = |name: &str| {
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            format!("'{name}'")
        };
        let mut seen = HashSet::new();
        let tools = tools.into_iter().filter(|name| seen.insert(*name));
        let tools: Vec<&str> = tools.collect();
        let more = tools.len().saturating_sub(MAX_SHOWN);
        let mut shown: Vec<String> = tools.into_iter().take(MAX_SHOWN).map(quote).collect();
        if more > 0 {
            shown.push(format!("{more} more"));
        }
        let tools = match (shown.len(), shown.pop()) {
            (_, None) => return Self::Timeout { after },
            (1, Some(only)) => format!("Tool {only}"),
            (_, Some(last)) => format!("The tools {} and {last}", shown.join(", ")),
        };
        Self::ToolTimeout { tools, after }
    }

    /// Whether there is no sidecar to talk to, so that nothing has been sent.
    #[must_use]
    pub fn is_not_running(&self) -> bool {
        matches!(self, Self::NotRunning { .. })
    }

    /// Whether the deadline passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::ToolTimeout { .. })
    }

    /// Returns whether the sidecar did not answer at all, so that it would not answer another
    /// request either.
    pub(crate) fn is_without_answer(&self) -> bool {
        self.is_timeout()
            || matches!(
                self,
                Self::NotRunning { .. } | Self::Connect { .. } | Self::Disconnected { .. }
            )
    }

    /// The error code of the fixed set (C5).
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

/// Who may use the socket, where this user may not.
fn rule(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            ": the socket's permissions let in the sidecar's user and root, and with socket.group \
             its members"
        }
        _ => "",
    }
}
