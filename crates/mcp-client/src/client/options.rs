use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::{ProgressCallback, ProgressNotification};

/// Options of one request.
///
/// ```
/// use pillion_mcp_client::RequestOptions;
/// use std::time::Duration;
/// let options = RequestOptions::default()
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestOptions {
    /// Maximum duration of the operation; default: the configured timeout of the server.
    pub timeout: Option<Duration>,
    /// A function that is called with each progress notification of the request. The function must
    /// not block.
    pub on_progress: Option<ProgressCallback>,
    /// Additional entries for the request's `_meta`, such as `traceparent`.
    pub meta: Map<String, Value>,
    /// The capabilities (`ClientCapabilities`) of the client for which this request is forwarded.
    /// Since revision 2026-07-28, the request carries these capabilities instead of the
    /// capabilities of the [`Callbacks`](crate::Callbacks). The extension for tasks is always
    /// added.
    pub capabilities: Option<Map<String, Value>>,
    /// Whether a result that requests input (`input_required`, MCP 2026-07-28) is returned to the
    /// caller, instead of being passed to the callbacks.
    pub return_input_requests: bool,
}

impl RequestOptions {
    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets [`on_progress`](Self::on_progress).
    #[must_use]
    pub fn on_progress(
        mut self,
        callback: impl Fn(ProgressNotification) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(callback));
        self
    }
}

impl fmt::Debug for RequestOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOptions")
            .field("timeout", &self.timeout)
            .field("on_progress", &self.on_progress.is_some())
            .field("meta", &self.meta)
            .field("capabilities", &self.capabilities)
            .field("return_input_requests", &self.return_input_requests)
            .finish()
    }
}
