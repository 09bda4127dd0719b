use pillion_egress::{self as egress, ConnectionChoice, SendFailure, suggests_restart};

use super::HttpLink;
use crate::McpErrorKind;
use crate::repeat::{RepeatSafety, RepeatedConnectionError};

/// Counts the attempts to send one HTTP message, and decides whether another attempt is allowed.
pub(super) struct Attempts<'a> {
    link: &'a HttpLink,
    attempts: egress::Attempts<'a>,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(link: &'a HttpLink, repeat_safety: RepeatSafety) -> Self {
        let attempts = egress::Attempts::new(&link.reachability, repeat_safety.is_harmless());
        Self { link, attempts }
    }

    /// Returns which connections the next attempt may use.
    pub(super) fn connection_choice(&self) -> ConnectionChoice {
        self.attempts.choice()
    }

    /// Waits after a failed attempt until the message may be sent again.
    ///
    /// # Errors
    /// The error of the failed attempt, if the message must not be sent again.
    pub(super) async fn wait_after(&mut self, error: McpErrorKind) -> Result<(), McpErrorKind> {
        let failure = match &error {
            McpErrorKind::ConnectionFailed(error) if suggests_restart(error) => {
                SendFailure::ConnectionRefused
            }
            McpErrorKind::ConnectionBroken(_) => SendFailure::Broken,
            _ => SendFailure::Other,
        };
        if self.attempts.wait_after(failure).await {
            tracing::debug!(%error, "Sending an MCP message again");
            if failure == SendFailure::ConnectionRefused
                && let Some(direct_client) = &self.link.direct_client
            {
                direct_client.forget_closes();
            }
            return Ok(());
        }
        Err(match error {
            McpErrorKind::ConnectionBroken(error) if self.attempts.has_repeated() => {
                McpErrorKind::ConnectionBroken(Box::new(RepeatedConnectionError(error)))
            }
            error => error,
        })
    }
}

#[cfg(test)]
mod tests;
