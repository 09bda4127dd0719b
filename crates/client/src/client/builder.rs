use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;

use super::{Client, InterruptHook, NoResolver, UnixConnector};

/// A builder for a [`Client`].
///
/// ```
/// use std::time::Duration;
/// use pillion_client::Client;
/// let client = Client::builder("/run/pillion/pillion.sock")
///     .timeout(Duration::from_secs(5))
///     .build();
/// ```
#[derive(Clone)]
pub struct ClientBuilder {
    pub(super) path: PathBuf,
    pub(super) timeout: Duration,
    pub(super) max_response_bytes: u64,
    interrupt_hook: Option<InterruptHook>,
}

impl ClientBuilder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            timeout: Duration::from_secs(65),
            max_response_bytes: 64 * 1024 * 1024,
            interrupt_hook: None,
        }
    }

    /// Sets the timeout of one call, from connecting to the last byte of the response; default 65
    /// seconds. Should be longer than the sidecar's timeouts for tools, because the sidecar's
    /// timeout errors are more specific than the client's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of a response body, in bytes; default 64 MiB.
    #[must_use]
    pub fn max_response_bytes(mut self, limit: u64) -> Self {
        self.max_response_bytes = limit;
        self
    }

    /// Sets a hook that is called at least five times per second, and after every signal, while a
    /// call waits. If the hook returns true, the call ends with
    /// [`ClientError::Interrupted`](crate::ClientError::Interrupted).
    #[must_use]
    pub fn interrupt_when(mut self, hook: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.interrupt_hook = Some(Arc::new(hook));
        self
    }

    /// Creates the client without connecting to the sidecar.
    #[must_use]
    pub fn build(self) -> Client {
        Client {
            settings: self,
            agent: None.into(),
        }
    }

    pub(super) fn agent(&self) -> Agent {
        let config = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false)
            // Redirects and proxies are disabled, because requests over a Unix socket need neither.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("pillion-client/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections_per_host(4)
            // Idle connections are closed before the sidecar's idle timeout, so that the sidecar
            // seldom closes a connection first.
            .max_idle_age(Duration::from_secs(60))
            .build();
        let connector = UnixConnector {
            path: self.path.clone(),
            interrupt_hook: self.interrupt_hook.clone(),
        };
        Agent::with_parts(config, connector, NoResolver)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("path", &self.path)
            .field("timeout", &self.timeout)
            .field("max_response_bytes", &self.max_response_bytes)
            .finish_non_exhaustive()
    }
}
