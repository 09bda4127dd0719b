use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use super::pauses::Pauses;
use crate::mcp::http::AnswerReader;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The longest id that is sent back. Servers refuse larger headers, and with them the
/// request.
const LONGEST_EVENT_ID: usize = 4 * 1024;

/// How long to wait where the server has not said it.
pub(super) const DEFAULT_WAIT: Duration = Duration::from_millis(500);

/// How far the wait grows while somebody waits for the answer.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Streams in a row that brought nothing new before the answer counts as lost.
const MOST_EMPTY_STREAMS: u32 = 10;

/// The header to go on with where a stream has ended; none when the server has not named
/// the place.
pub(super) fn place_in(reader: &AnswerReader) -> Option<HeaderMap> {
    let id = reader.last_event_id()?;
    if id.len() > LONGEST_EVENT_ID {
        tracing::debug!(bytes = id.len(), "The id of an event is too long to use");
        return None;
    }
    let header = HeaderValue::from_str(id).ok()?;
    Some(HeaderMap::from_iter([(LAST_EVENT_ID, header)]))
}

/// Decides how a stream that ended too early goes on (MCP 2025-11-25, "Resumability and
/// Redelivery"): after `retry` milliseconds, by a GET with `Last-Event-ID`.
pub(super) struct Resumption {
    allowed: bool,
    pauses: Pauses,
    empty_streams: u32,
    /// Where the last stream ended. No header yet: every exchange holds room for this.
    last_id: Option<Box<str>>,
}

impl Resumption {
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            pauses: Pauses::up_to(LONGEST_WAIT),
            empty_streams: 0,
            last_id: None,
        }
    }

    /// Takes note that a stream brings something.
    pub(super) fn heard(&mut self) {
        self.pauses.begin_again();
    }

    /// The wait that the server asks for, and then the header to resume with; none when
    /// the stream cannot be resumed.
    pub(super) fn wait(
        &mut self,
        reader: &AnswerReader,
    ) -> Option<impl Future<Output = HeaderMap> + Send + use<>> {
        let place = place_in(reader).filter(|_| self.allowed)?;
        let id = reader.last_event_id();
        if self.last_id.as_deref() == id {
            self.empty_streams += 1;
            if self.empty_streams > MOST_EMPTY_STREAMS {
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
            place
        })
    }
}
