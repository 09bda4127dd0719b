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

/// The last response that arrived over a connection which the full HTTP client keeps. Responses over
/// other connections say nothing about the kept ones.
#[derive(Debug, Clone, Copy)]
struct LastResponse {
    at: Instant,
    /// The local address of the connection, which identifies the connection while it is open.
    connection: Option<SocketAddr>,
}

/// Which connections of the full HTTP client a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolUse {
    /// A new connection, which is not kept.
    New,
    /// A kept connection that has been idle for at most `max_idle`, or a new one, which is kept.
    Kept {
        max_idle: Duration,
        /// How long the connection has been idle; `None` if the connection is new.
        idle: Option<Duration>,
    },
}

impl PoolUse {
    /// Returns how long the connection of the request has been idle; `None` if the connection is
    /// new.
    pub(super) fn idle(self) -> Option<Duration> {
        match self {
            Self::New => None,
            Self::Kept { max_idle, idle } => idle.filter(|idle| *idle <= max_idle),
        }
    }
}

/// Marks a response over a connection that had been idle for this time.
#[derive(Debug, Clone, Copy)]
struct IdleBefore(Duration);

impl Reachability {
    pub(super) fn new() -> Self {
        Self {
            restarts: Restarts::new(RestartPace::HTTP),
            habit: KeepAliveHabit::default(),
            last_response: Mutex::new(None),
        }
    }

    /// Returns which connections of the full HTTP client a request uses.
    pub(super) fn pool_use(&self, choice: ConnectionChoice) -> PoolUse {
        let idle = self.last_response.lock().map(|last| last.at.elapsed());
        match self.habit.max_idle(idle, choice) {
            Some(max_idle) => PoolUse::Kept { max_idle, idle },
            None => PoolUse::New,
        }
    }

    /// Updates the habit with a response whose body was cut off. A server may do that to every
    /// connection that it has kept.
    pub(super) fn note_cut_off(&self, idle: Option<Duration>) {
        if let Some(idle) = idle {
            self.habit.note_broken(idle);
        }
    }

    /// Updates the habit with the outcome of a request.
    pub(super) fn learn(
        &self,
        pool_use: PoolUse,
        outcome: &mut Result<reqwest::Response, McpErrorKind>,
    ) {
        match outcome {
            Ok(response) => {
                if pool_use == PoolUse::New {
                    return;
                }
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
                if let Some(idle) = pool_use.idle() {
                    response.extensions_mut().insert(IdleBefore(idle));
                }
            }
            Err(McpErrorKind::Broken(_)) => self.note_cut_off(pool_use.idle()),
            Err(_) => {}
        }
    }
}

/// Returns how long the connection of a response had been idle; `None` if the connection was new, or
/// one of the direct client.
pub(super) fn idle_before(response: &reqwest::Response) -> Option<Duration> {
    let idle: Option<&IdleBefore> = response.extensions().get();
    idle.map(|idle| idle.0)
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

#[cfg(test)]
mod tests;
