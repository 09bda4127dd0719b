use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use super::pauses::Pauses;
use crate::http::ResponseReader;

const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum size of an event ID that is sent in `Last-Event-ID`, in bytes. Servers reject requests
/// with larger headers.
const MAX_EVENT_ID_BYTES: usize = 4 * 1024;

/// The default reconnection time, used if the server has not requested one.
pub(super) const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum pause before a stream is resumed, while a request waits for its response.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of consecutive streams without a new event; then the response counts as lost.
const MAX_EMPTY_STREAMS: u32 = 10;

/// Returns the header for resuming a stream; `None` if the server sent no usable event ID.
pub(super) fn create_resume_headers(reader: &ResponseReader) -> Option<HeaderMap> {
    let id = reader.last_event_id()?;
    if id.len() > MAX_EVENT_ID_BYTES {
        tracing::debug!(
            bytes = id.len(),
            "Ignored an event ID of more than {MAX_EVENT_ID_BYTES} bytes"
        );
        return None;
    }
    let header = HeaderValue::from_str(id).ok()?;
    Some(HeaderMap::from_iter([(LAST_EVENT_ID_HEADER, header)]))
}

/// Resumes a stream that ended before the response (MCP 2025-11-25, "Resumability and Redelivery"):
/// after `retry` milliseconds, by a GET with `Last-Event-ID`.
pub(super) struct Resumption {
    is_allowed: bool,
    pauses: Pauses,
    empty_stream_count: u32,
    /// The last event ID of the previous stream. Stored as a short pointer and not as a larger
    /// header value, because the future of every exchange contains this field.
    last_event_id: Option<Box<str>>,
}

impl Resumption {
    pub(super) fn new(is_allowed: bool) -> Self {
        Self {
            is_allowed,
            pauses: Pauses::with_max(MAX_RETRY_INTERVAL),
            empty_stream_count: 0,
            last_event_id: None,
        }
    }

    /// Resets the pauses after a stream that delivered an event.
    pub(super) fn reset_pauses(&mut self) {
        self.pauses.reset();
    }

    /// Returns a future that waits for the reconnection time, and then returns the header for
    /// resuming. Returns `None` if the stream cannot be resumed.
    pub(super) fn wait(
        &mut self,
        reader: &ResponseReader,
    ) -> Option<impl Future<Output = HeaderMap> + Send + use<>> {
        let headers = create_resume_headers(reader).filter(|_| self.is_allowed)?;
        let id = reader.last_event_id();
        if self.last_event_id.as_deref() == id {
            self.empty_stream_count += 1;
            if self.empty_stream_count > MAX_EMPTY_STREAMS {
                return None;
            }
        } else {
            self.empty_stream_count = 0;
            self.last_event_id = id.map(Into::into);
        }
        let pause = self
            .pauses
            .next_pause(reader.retry_interval().unwrap_or(DEFAULT_RETRY_INTERVAL));
        tracing::debug!(wait = ?pause, "The event stream ended early and will be resumed");
        Some(async move {
            tokio::time::sleep(pause).await;
            headers
        })
    }
}
