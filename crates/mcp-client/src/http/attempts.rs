use pillion_egress::{self as egress, ConnectionChoice, SendFailure, suggests_restart};

use super::HttpLink;
use crate::McpErrorKind;
use crate::repeat::{Repeat, RepeatedInVain};

/// The attempts to send one HTTP message.
pub(super) struct Attempts<'a> {
    link: &'a HttpLink,
    attempts: egress::Attempts<'a>,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(link: &'a HttpLink, repeat: Repeat) -> Self {
        let attempts = egress::Attempts::new(&link.reachability, repeat.is_harmless());
        Self { link, attempts }
    }

    /// Returns which connections the next attempt may use.
    pub(super) fn choice(&self) -> ConnectionChoice {
        self.attempts.choice()
    }

    /// Waits after a failed attempt until the message may be sent again.
    ///
    /// # Errors
    /// The error of the failed attempt, if the message must not be sent again.
    pub(super) async fn wait(&mut self, error: McpErrorKind) -> Result<(), McpErrorKind> {
        let failure = match &error {
            McpErrorKind::Connect(error) if suggests_restart(error) => {
                SendFailure::ConnectionRefused
            }
            McpErrorKind::Broken(_) => SendFailure::Broken,
            _ => SendFailure::Other,
        };
        if self.attempts.wait_after(failure).await {
            tracing::debug!(%error, "Sending an MCP message again");
            if failure == SendFailure::ConnectionRefused
                && let Some(shortcut) = &self.link.shortcut
            {
                shortcut.forget_closes();
            }
            return Ok(());
        }
        Err(match error {
            McpErrorKind::Broken(error) if self.attempts.has_repeated() => {
                McpErrorKind::Broken(Box::new(RepeatedInVain(error)))
            }
            error => error,
        })
    }
}

#[cfg(test)]
mod tests;
