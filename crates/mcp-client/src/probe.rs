use std::sync::Arc;

use parking_lot::Mutex;

use super::McpErrorKind;
use super::TransportKind;
use super::dialect::{ServerDialect, SessionStart};

/// One step of opening a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeStep {
    /// The request that was sent, such as `POST server/discover`.
    pub attempt: String,
    /// The outcome of the request: a description of what was negotiated, or the error.
    pub outcome: Result<String, String>,
}

/// The steps that a connection attempt has taken. Clones share the steps, so that a waiting caller
/// can report the steps if the attempt fails.
#[derive(Clone, Default)]
pub(super) struct ProbeSteps(Arc<Mutex<Vec<ProbeStep>>>);

impl ProbeSteps {
    /// Records a step, and logs the step.
    pub(super) fn record(&mut self, attempt: String, outcome: Result<String, &McpErrorKind>) {
        let outcome = outcome.map_err(ToString::to_string);
        match &outcome {
            Ok(description) => tracing::debug!(attempt, description, "A connection step succeeded"),
            Err(error) => tracing::debug!(attempt, error, "A connection step failed"),
        }
        self.0.lock().push(ProbeStep { attempt, outcome });
    }

    pub(super) fn snapshot(&self) -> Vec<ProbeStep> {
        self.0.lock().clone()
    }
}

impl ServerDialect {
    /// Describes the requests with which a session in this dialect starts, such as `POST initialize
    /// (2025-06-18)`.
    pub(super) fn describe(self) -> String {
        let stream = match self.transport {
            TransportKind::LegacySse => "GET event stream with an endpoint, ",
            TransportKind::GetSse => "GET event stream, ",
            _ => "",
        };
        match self.session_start {
            SessionStart::Stateless(version) => format!("{stream}requests of revision {version}"),
            SessionStart::Handshake(version) => format!("{stream}POST initialize ({version})"),
            SessionStart::None => format!("{stream}requests without handshake"),
        }
    }
}
