use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::mcp::{Progress, ProgressCallback};

/// What one request has of its own.
///
/// ```
/// use pillion_core::mcp::RequestOptions;
/// use std::time::Duration;
/// let options = RequestOptions::default()
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestOptions {
    /// How long the operation may take; the server's configured timeout when not set.
    pub timeout: Option<Duration>,
    /// Hears how far the request has come; it must not block.
    pub on_progress: Option<ProgressCallback>,
    /// Entries of `_meta`, such as `traceparent`.
    pub meta: Map<String, Value>,
    /// What the client can do for whom the request is passed on (`ClientCapabilities`): since
    /// 2026-07-28 the server hears this in place of what the [`Callbacks`](crate::mcp::Callbacks)
    /// offer. Tasks are followed for them all the same.
    pub capabilities: Option<Map<String, Value>>,
    /// Gives a result that asks for input (`input_required`, MCP 2026-07-28) back as it is,
    /// for somebody else to answer, and does not answer it by the callbacks.
    pub hand_back_questions: bool,
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
    pub fn on_progress(mut self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(callback));
        self
    }

    /// Adds an entry to [`meta`](Self::meta).
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.meta.insert(key.into(), value);
        self
    }

    /// Sets [`capabilities`](Self::capabilities).
    #[must_use]
    pub fn capabilities(mut self, capabilities: Map<String, Value>) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Sets [`hand_back_questions`](Self::hand_back_questions).
    #[must_use]
    pub fn hand_back_questions(mut self) -> Self {
        self.hand_back_questions = true;
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
            .field("hand_back_questions", &self.hand_back_questions)
            .finish()
    }
}
