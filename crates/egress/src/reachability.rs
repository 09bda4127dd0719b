use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper_util::client::legacy::connect::HttpInfo;
use parking_lot::Mutex;

use super::{ConnectionChoice, KeepAliveEstimate, RestartPace, Restarts};

/// Maximum number of times that one request is sent again because its connection broke.
pub const MAX_REPEATS: u32 = 3;

/// Pause before the second repetition; doubles with each further repetition. The first repetition
/// follows at once, because usually the server has closed a kept connection.
const REPEAT_INTERVAL: Duration = Duration::from_millis(10);

/// What is known about a server's availability and its connections.
pub struct Reachability {
    restarts: Restarts,
    /// What is known about how long the server keeps idle connections.
    keep_alive: KeepAliveEstimate,
    last_response: Mutex<Option<LastResponse>>,
}

/// The last response that arrived over a kept connection. Responses over other connections show
/// nothing about the kept connections.
#[derive(Debug, Clone, Copy)]
struct LastResponse {
    at: Instant,
    /// The local address of the connection, which identifies the connection while it is open.
    connection: Option<SocketAddr>,
}

/// Which connections a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolUse {
    /// The request uses a new connection, which is not kept.
    New,
    /// The request uses a kept connection that has been idle for at most `max_idle`, or a new
    /// connection, which is then kept.
    Pooled {
        /// Maximum idle time of the connection. Connections that have been idle for longer are
        /// closed.
        max_idle: Duration,
        /// How long the connection has been idle; `None` if the connection is new.
        idle: Option<Duration>,
    },
}

impl PoolUse {
    /// Returns how long the connection of the request has been idle; `None` if the connection is
    /// new.
    fn idle(self) -> Option<Duration> {
        match self {
            Self::New => None,
            Self::Pooled { max_idle, idle } => idle.filter(|idle| *idle <= max_idle),
        }
    }
}

/// Marks a response whose connection had been idle for this time before the request.
#[derive(Debug, Clone, Copy)]
struct IdleBefore(Duration);

impl Default for Reachability {
    fn default() -> Self {
        Self {
            restarts: Restarts::new(RestartPace::HTTP),
            keep_alive: KeepAliveEstimate::default(),
            last_response: Mutex::new(None),
        }
    }
}

impl Reachability {
    /// Returns which connections a request may use. If `choice` allows only reliable connections,
    /// first lets the client's tasks detect which of the kept connections the server has closed.
    pub async fn pool_use(&self, choice: ConnectionChoice) -> PoolUse {
        if choice == ConnectionChoice::Reliable {
            // Yielding lets the runtime poll the operating system.
            tokio::task::yield_now().await;
        }
        let idle = self.last_response.lock().map(|last| last.at.elapsed());
        match self.keep_alive.max_idle(idle, choice) {
            Some(max_idle) => PoolUse::Pooled { max_idle, idle },
            None => PoolUse::New,
        }
    }

    /// Records that the server has responded, whichever client received the response.
    pub fn note_response(&self) {
        self.restarts.note_response();
    }

    /// Updates the record of kept connections with the response to a request.
    pub fn learn_response(&self, pool_use: PoolUse, response: &mut reqwest::Response) {
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
            self.keep_alive.note_reused();
        }
        if let Some(idle) = pool_use.idle() {
            response.extensions_mut().insert(IdleBefore(idle));
        }
    }

    /// Updates the record of kept connections with a request whose connection broke before the
    /// response.
    pub fn learn_break(&self, pool_use: PoolUse) {
        self.note_cut_off(pool_use.idle());
    }

    /// Updates the record of kept connections with a response whose body was cut off. `idle` is the
    /// result of [`idle_before`](Self::idle_before). A server may cut off the body on every
    /// connection that the server has kept.
    pub fn note_cut_off(&self, idle: Option<Duration>) {
        if let Some(idle) = idle {
            self.keep_alive.note_broken(idle);
        }
    }

    /// Returns how long the connection of a response had been idle before the request; `None` if
    /// the connection was new, or the response was not passed to
    /// [`learn_response`](Self::learn_response).
    #[must_use]
    pub fn idle_before(response: &reqwest::Response) -> Option<Duration> {
        let idle: Option<&IdleBefore> = response.extensions().get();
        idle.map(|idle| idle.0)
    }

    /// Returns what is known about how long the server keeps connections.
    #[must_use]
    pub fn keep_alive(&self) -> &KeepAliveEstimate {
        &self.keep_alive
    }
}

/// Returns the local address of the connection over which a response arrived. The address
/// identifies the connection while the connection is open.
fn local_address(response: &reqwest::Response) -> Option<SocketAddr> {
    let info: Option<&HttpInfo> = response.extensions().get();
    info.map(HttpInfo::local_addr)
}

/// Why an attempt to send a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFailure {
    /// The server refused the connection, so no byte was sent.
    ConnectionRefused,
    /// The connection broke, and the server may have received the request.
    Broken,
    /// The request failed with another error, and is not sent again.
    Other,
}

/// The attempts to send one request. A request that failed before a byte of it was sent may be sent
/// again. A request that the server may have received is sent again only if a repetition is
/// harmless.
pub struct Attempts<'a> {
    reachability: &'a Reachability,
    is_harmless: bool,
    /// Number of attempts whose connection broke.
    broken: u32,
}

impl<'a> Attempts<'a> {
    /// Begins to send a request. `is_harmless` is whether the server may run the request twice.
    #[must_use]
    pub fn new(reachability: &'a Reachability, is_harmless: bool) -> Self {
        Self {
            reachability,
            is_harmless,
            broken: 0,
        }
    }

    /// Returns which connection the next attempt may use.
    #[must_use]
    pub fn choice(&self) -> ConnectionChoice {
        if self.broken > 0 {
            ConnectionChoice::New
        } else if self.is_harmless {
            ConnectionChoice::Any
        } else {
            ConnectionChoice::Reliable
        }
    }

    /// Returns whether the request was sent again because its connection broke.
    #[must_use]
    pub fn has_repeated(&self) -> bool {
        self.broken > 0
    }

    /// Waits until the request may be sent again. Returns `false` if the request must not be sent
    /// again.
    pub async fn wait_after(&mut self, failure: SendFailure) -> bool {
        let Reachability {
            restarts,
            keep_alive,
            ..
        } = self.reachability;
        match failure {
            SendFailure::ConnectionRefused => {
                let may_restart = restarts.wait_to_reconnect().await;
                if may_restart {
                    // A restart closes every connection, and does not show how long the server
                    // keeps connections.
                    keep_alive.forget_closes();
                }
                may_restart
            }
            SendFailure::Broken if self.is_harmless && self.broken < MAX_REPEATS => {
                if let Some(doublings) = self.broken.checked_sub(1) {
                    tokio::time::sleep(REPEAT_INTERVAL * (1 << doublings)).await;
                }
                self.broken += 1;
                true
            }
            SendFailure::Broken | SendFailure::Other => false,
        }
    }
}
