use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use super::pauses::Pauses;
use crate::http::ResponseReader;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum size of a returned event id, in bytes. Servers reject requests with larger headers.
const MAX_EVENT_ID_LEN: usize = 4 * 1024;

/// The reconnection time of a server that has not requested one.
pub(super) const DEFAULT_WAIT: Duration = Duration::from_millis(500);

/// Maximum pause before a stream is resumed, while a request waits for its response.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Number of consecutive streams without a new event after which the response counts as lost.
const MAX_EMPTY_STREAMS: u32 = 10;

/// Returns the header for resuming a stream; `None` if the server sent no event id.
pub(super) fn resume_header(reader: &ResponseReader) -> Option<HeaderMap> {
    let id = reader.last_event_id()?;
    if id.len() > MAX_EVENT_ID_LEN {
        tracing::debug!(bytes = id.len(), "An event id is too long and was ignored");
        return None;
    }
    let header = HeaderValue::from_str(id).ok()?;
    Some(HeaderMap::from_iter([(LAST_EVENT_ID, header)]))
}

/// Resumes a stream that ended before the response (MCP 2025-11-25, "Resumability and Redelivery"):
/// after `retry` milliseconds, by a GET with `Last-Event-ID`.
pub(super) struct Resumption {
    allowed: bool,
    pauses: Pauses,
    empty_streams: u32,
    /// The last event id of the previous stream. Not stored as a header, because every exchange
    /// reserves space for this field.
    last_id: Option<Box<str>>,
}

impl Resumption {
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            pauses: Pauses::with_max(MAX_WAIT),
            empty_streams: 0,
            last_id: None,
        }
    }

    /// Resets the pauses after a stream that delivered an event.
    pub(super) fn reset_pauses(&mut self) {
        self.pauses.reset();
    }

    /// Waits for the reconnection time, and returns the header for resuming; `None` if the stream
    /// cannot be resumed.
    pub(super) fn wait(
        &mut self,
        reader: &ResponseReader,
    ) -> Option<impl Future<Output = HeaderMap> + Send + use<>> {
        let header = resume_header(reader).filter(|_| self.allowed)?;
        let id = reader.last_event_id();
        if self.last_id.as_deref() == id {
            self.empty_streams += 1;
            if self.empty_streams > MAX_EMPTY_STREAMS {
                return None;
            }
        } else {
            self.empty_streams = 0;
            self.last_id = id.map(Into::into);
        }
        let wait = self.pauses.next(reader.retry().unwrap_or(DEFAULT_WAIT));
        tracing::debug!(?wait, "The event stream ended early and will be resumed");
        Some(async move {
            tokio::time::sleep(wait).await;
            header
        })
    }
}
