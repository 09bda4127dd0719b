use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use crate::mcp::http::AnswerReader;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long to wait where the server has not said it.
const DEFAULT_WAIT: Duration = Duration::from_millis(500);

/// The longest wait that a server can ask for; the caller's deadline may be shorter.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Streams in a row that brought nothing new before the answer counts as lost.
const MOST_EMPTY_STREAMS: u32 = 10;

/// Decides how a stream that ended too early goes on (MCP 2025-11-25, "Resumability and
/// Redelivery"): after `retry` milliseconds, by a GET with `Last-Event-ID`.
pub(super) struct Resumption {
    allowed: bool,
    empty_streams: u32,
    last_id: Option<String>,
}

impl Resumption {
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            empty_streams: 0,
            last_id: None,
        }
    }

    /// The wait that the server asks for, and then the header to resume with; none when
    /// the stream cannot be resumed.
    pub(super) fn wait(
        &mut self,
        reader: &AnswerReader,
    ) -> Option<impl Future<Output = HeaderMap> + Send + use<>> {
        let id = reader.last_event_id().filter(|_| self.allowed)?;
        if self.last_id.as_deref() == Some(id) {
            self.empty_streams += 1;
            if self.empty_streams > MOST_EMPTY_STREAMS {
                return None;
            }
        } else {
            self.empty_streams = 0;
            self.last_id = Some(id.to_owned());
        }
        let header = HeaderValue::from_str(id).ok()?;
        let wait = reader.retry().unwrap_or(DEFAULT_WAIT).min(LONGEST_WAIT);
        tracing::debug!(?wait, "The event stream ended early and will be resumed");
        Some(async move {
            tokio::time::sleep(wait).await;
            HeaderMap::from_iter([(LAST_EVENT_ID, header)])
        })
    }
}
