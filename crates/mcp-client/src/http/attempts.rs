use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_egress::{ConnectionChoice, KeepAliveHabit, local_address, was_refused};

use super::HttpLink;
use crate::McpErrorKind;
use crate::repeat::{MAX_REPEATS, Repeat, RepeatedInVain};
use crate::restarts::{RestartPace, Restarts};

/// Pause before the second repetition; doubles with each further one. The first repetition follows at
/// once, because usually a kept connection was closed.
const REPEAT_INTERVAL: Duration = Duration::from_millis(10);

/// What is known about the server's availability and its connections.
pub(super) struct Reachability {
    pub(super) restarts: Restarts,
    /// How long the server keeps connections of the full HTTP client.
    habit: KeepAliveHabit,
    last_response: Mutex<Option<LastResponse>>,
}

/// The last response that the full HTTP client received.
#[derive(Debug, Clone, Copy)]
struct LastResponse {
    at: Instant,
    /// The local address of the connection, which identifies the connection while it is open.
    connection: Option<SocketAddr>,
}

impl Reachability {
    pub(super) fn new() -> Self {
        Self {
            restarts: Restarts::new(RestartPace::HTTP),
            habit: KeepAliveHabit::default(),
            last_response: Mutex::new(None),
        }
    }

    /// Returns how long the connections of the full HTTP client have been idle at least; `None` if
    /// the client has received no response.
    pub(super) fn idle(&self) -> Option<Duration> {
        self.last_response.lock().map(|last| last.at.elapsed())
    }

    /// Returns whether the full HTTP client must open a connection.
    pub(super) fn needs_new_connection(
        &self,
        idle: Option<Duration>,
        choice: ConnectionChoice,
    ) -> bool {
        choice == ConnectionChoice::New || idle.is_some_and(|idle| !self.habit.allows(idle, choice))
    }

    /// Records that the body of a response was cut off. The server may cut off every response over
    /// a connection that it has kept.
    pub(super) fn note_cut_off(&self) {
        self.habit.note_broken(Duration::ZERO);
    }

    /// Updates the habit with the outcome of a request that was sent when the connections had been
    /// idle for `idle`; `None` if the request was sent over a new connection.
    pub(super) fn learn(
        &self,
        idle: Option<Duration>,
        outcome: &Result<reqwest::Response, McpErrorKind>,
    ) {
        match outcome {
            Ok(response) => {
                let connection = local_address(response);
                let at = Instant::now();
                let previous = self
                    .last_response
                    .lock()
                    .replace(LastResponse { at, connection });
                let previous_connection = previous.and_then(|previous| previous.connection);
                if previous_connection.is_some() && previous_connection == connection {
                    self.habit.note_kept();
                }
            }
            Err(McpErrorKind::Broken(_)) => {
                if let Some(idle) = idle {
                    self.habit.note_broken(idle);
                }
            }
            Err(_) => {}
        }
    }
}

/// The attempts to send one message.
pub(super) struct Attempts<'a> {
    link: &'a HttpLink,
    repeat: Repeat,
    /// Number of attempts whose connection broke.
    broken: u32,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(link: &'a HttpLink, repeat: Repeat) -> Self {
        Self {
            link,
            repeat,
            broken: 0,
        }
    }

    /// Returns which connection the next attempt may use.
    pub(super) fn choice(&self) -> ConnectionChoice {
        match self.repeat {
            _ if self.broken > 0 => ConnectionChoice::New,
            Repeat::Harmless => ConnectionChoice::Any,
            Repeat::Never => ConnectionChoice::Reliable,
        }
    }

    /// Waits until the message may be sent again.
    ///
    /// # Errors
    /// The error of the attempt, if the message must not be sent again.
    pub(super) async fn wait(&mut self, error: McpErrorKind) -> Result<(), McpErrorKind> {
        let reachability = &self.link.reachability;
        match &error {
            // Nothing was sent: the server may be restarting.
            McpErrorKind::Connect(refusal) if was_refused(refusal) => {
                if !reachability.restarts.wait_after_refusal().await {
                    return Err(error);
                }
                tracing::debug!(%error, "Connecting again to an MCP server that may be restarting");
                // A restart closes every connection, which says nothing about the server's habit.
                reachability.habit.forget_closes();
                if let Some(shortcut) = &self.link.shortcut {
                    shortcut.forget_closes();
                }
                Ok(())
            }
            McpErrorKind::Broken(_) if self.repeat.is_harmless() && self.broken < MAX_REPEATS => {
                tracing::debug!(%error, "Sending a harmless MCP message again");
                if let Some(doublings) = self.broken.checked_sub(1) {
                    tokio::time::sleep(REPEAT_INTERVAL * (1 << doublings)).await;
                }
                self.broken += 1;
                Ok(())
            }
            _ => Err(match error {
                McpErrorKind::Broken(error) if self.broken > 0 => {
                    McpErrorKind::Broken(Box::new(RepeatedInVain(error)))
                }
                error => error,
            }),
        }
    }
}
