use std::sync::Arc;

use parking_lot::Mutex;

use super::McpErrorKind;
use super::TransportKind;
use super::connect::Opened;
use super::dialect::{Dialect, Opening};
use super::session::Session;

/// One thing that was tried on the way to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeStep {
    /// What was sent, such as `POST server/discover`.
    pub tried: String,
    /// What came of it: what was agreed, or the error.
    pub outcome: Result<String, String>,
}

/// What was tried so far. Clones share it: whoever waits can still tell what was tried when
/// nothing came of it.
#[derive(Clone, Default)]
pub(super) struct Steps(Arc<Mutex<Vec<ProbeStep>>>);

impl Steps {
    pub(super) fn note(
        &mut self,
        tried: impl Into<String>,
        outcome: Result<String, &McpErrorKind>,
    ) {
        let tried = tried.into();
        let outcome = outcome.map_err(ToString::to_string);
        match &outcome {
            Ok(agreed) => tracing::debug!(tried, agreed, "Connecting"),
            Err(error) => tracing::debug!(tried, error, "Connecting"),
        }
        self.0.lock().push(ProbeStep { tried, outcome });
    }

    pub(super) fn so_far(&self) -> Vec<ProbeStep> {
        self.0.lock().clone()
    }

    pub(super) fn opened(self, session: Session, dialect: Dialect) -> Opened {
        Opened {
            session,
            dialect,
            steps: self.so_far(),
        }
    }
}

impl Dialect {
    /// What opening a session in this way begins with.
    pub(super) fn describe(self) -> String {
        let stream = match self.transport {
            TransportKind::LegacySse => "GET event stream with an endpoint, ",
            TransportKind::GetSse => "GET event stream, ",
            _ => "",
        };
        match self.opening {
            Opening::Stateless(version) => format!("{stream}requests of revision {version}"),
            Opening::Handshake(version) => format!("{stream}POST initialize ({version})"),
            Opening::None => format!("{stream}requests without handshake"),
        }
    }
}
