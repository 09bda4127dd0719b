use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper_util::client::legacy::connect::HttpInfo;
use parking_lot::Mutex;

use super::{ConnectionChoice, KeepAliveEstimate, RestartPace, Restarts};

/// Maximum number of times that one request is sent again because its connection broke.
pub const MAX_REPEATS: u32 = 3;

/// Pause before the second repetition of a request; doubles with each further repetition. The first
/// repetition follows without a pause, because the server has usually closed an idle connection,
/// and a new connection works at once.
const REPEAT_INTERVAL: Duration = Duration::from_millis(10);

/// The observed availability of a server and of its connections.
pub struct Reachability {
    restarts: Restarts,
    /// The estimate of the time for which the server keeps idle connections open.
    keep_alive: KeepAliveEstimate,
    last_response: Mutex<Option<LastResponse>>,
}

/// The last response over a connection of the client's pool. Responses over other connections do
/// not show whether the server keeps idle connections open.
#[derive(Debug, Clone, Copy)]
struct LastResponse {
    received_at: Instant,
    /// The local address of the connection, which identifies the connection while it is open.
    local_address: Option<SocketAddr>,
}

/// Which connections a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolUse {
    /// The request uses a new connection, which is closed after the request.
    New,
    /// The request uses a connection of the client's pool that has been idle for at most
    /// `max_idle`, or a new connection, which is added to the pool after the request.
    Pooled {
        /// Maximum idle time of the connection. Connections that have been idle for longer are
        /// closed.
        max_idle: Duration,
        /// How long the connection has been idle; `None` if the connection is new.
        idle_time: Option<Duration>,
    },
}

impl PoolUse {
    /// Returns how long the connection of the request has been idle; `None` if the connection is
    /// new.
    fn idle_time(self) -> Option<Duration> {
        match self {
            Self::New => None,
            Self::Pooled {
                max_idle,
                idle_time,
            } => idle_time.filter(|idle_time| *idle_time <= max_idle),
        }
    }
}

/// A response extension: how long the connection of the response had been idle before the request.
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
    /// Chooses which connections a request may use. If `choice` allows only reliable connections,
    /// first lets the client's tasks detect which idle connections the server has closed.
    pub async fn choose_pool_use(&self, choice: ConnectionChoice) -> PoolUse {
        if choice == ConnectionChoice::Reliable {
            // The task yields once, so that the runtime polls the operating system and detects
            // closed connections.
            tokio::task::yield_now().await;
        }
        let last_response = *self.last_response.lock();
        let idle_time = last_response.map(|response| response.received_at.elapsed());
        match self.keep_alive.max_idle(idle_time, choice) {
            Some(max_idle) => PoolUse::Pooled {
                max_idle,
                idle_time,
            },
            None => PoolUse::New,
        }
    }

    /// Records that the server has responded, whichever client received the response.
    pub fn note_response(&self) {
        self.restarts.note_response();
    }

    /// Updates the keep-alive estimate with the response to a request.
    pub fn learn_response(&self, pool_use: PoolUse, response: &mut reqwest::Response) {
        if pool_use == PoolUse::New {
            return;
        }
        let local_address = local_address(response);
        let previous = self.last_response.lock().replace(LastResponse {
            received_at: Instant::now(),
            local_address,
        });
        let previous_address = previous.and_then(|response| response.local_address);
        if previous_address.is_some() && previous_address == local_address {
            self.keep_alive.note_reused();
        }
        if let Some(idle_time) = pool_use.idle_time() {
            response.extensions_mut().insert(IdleBefore(idle_time));
        }
    }

    /// Updates the keep-alive estimate with a request whose connection broke before the response.
    pub fn learn_break(&self, pool_use: PoolUse) {
        self.note_cut_off(pool_use.idle_time());
    }

    /// Updates the keep-alive estimate with a response whose body was cut off. `idle_time` is the
    /// result of [`idle_before`](Self::idle_before). A cut-off body counts like a broken
    /// connection, because some servers cut off the body whenever a connection is reused.
    pub fn note_cut_off(&self, idle_time: Option<Duration>) {
        if let Some(idle_time) = idle_time {
            self.keep_alive.note_broken(idle_time);
        }
    }

    /// Returns how long the connection of a response had been idle before the request; `None` if
    /// the connection was new, or the response was not passed to
    /// [`learn_response`](Self::learn_response).
    #[must_use]
    pub fn idle_before(response: &reqwest::Response) -> Option<Duration> {
        let idle_time: Option<&IdleBefore> = response.extensions().get();
        idle_time.map(|idle_time| idle_time.0)
    }

    /// Returns the estimate of the time for which the server keeps idle connections open.
    #[must_use]
    pub fn keep_alive(&self) -> &KeepAliveEstimate {
        &self.keep_alive
    }
}

/// Returns the local address of the connection over which a response arrived. The address
/// identifies the connection while the connection is open.
fn local_address(response: &reqwest::Response) -> Option<SocketAddr> {
    let http_info: Option<&HttpInfo> = response.extensions().get();
    http_info.map(HttpInfo::local_addr)
}

/// Why an attempt to send a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFailure {
    /// The server refused the connection, so no byte was sent.
    ConnectionRefused,
    /// The connection broke, and the server may have received the request.
    Broken,
    /// The request failed with an error that is not retried.
    Other,
}

/// The attempts to send one request. A request that failed before a byte of it was sent may be sent
/// again. A request that the server may have received is sent again only if a repetition is
/// harmless.
pub struct Attempts<'a> {
    reachability: &'a Reachability,
    is_harmless: bool,
    /// Number of attempts whose connection broke.
    broken_attempts: u32,
}

impl<'a> Attempts<'a> {
    /// Creates a record of the attempts to send one request, before the first attempt.
    /// `is_harmless` is `true` if the server may process the request twice without harm.
    #[must_use]
    pub fn new(reachability: &'a Reachability, is_harmless: bool) -> Self {
        Self {
            reachability,
            is_harmless,
            broken_attempts: 0,
        }
    }

    /// Returns which connection the next attempt may use.
    #[must_use]
    pub fn choice(&self) -> ConnectionChoice {
        if self.broken_attempts > 0 {
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
        self.broken_attempts > 0
    }

    /// Waits until the request may be sent again. Returns `false` if the request must not be sent
    /// again.
    pub async fn wait_after(&mut self, failure: SendFailure) -> bool {
        match failure {
            SendFailure::ConnectionRefused => {
                let can_retry = self.reachability.restarts.wait_to_reconnect().await;
                if can_retry {
                    // A restart closes every connection, so the closed connections do not show how
                    // long the server keeps idle connections open.
                    self.reachability.keep_alive.forget_closes();
                }
                can_retry
            }
            SendFailure::Broken if self.is_harmless && self.broken_attempts < MAX_REPEATS => {
                if let Some(doublings) = self.broken_attempts.checked_sub(1) {
                    tokio::time::sleep(REPEAT_INTERVAL * (1 << doublings)).await;
                }
                self.broken_attempts += 1;
                true
            }
            SendFailure::Broken | SendFailure::Other => false,
        }
    }
}
