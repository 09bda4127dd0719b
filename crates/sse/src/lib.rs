//! A decoder for server-sent events that enforces its limits while reading.
//!
//! The decoder accepts bytes as they arrive, takes linear time, and never buffers more than one
//! event and the most recent input. ADR 0001 explains why Pillion has its own decoder.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// An event of a stream, as defined by the WHATWG HTML standard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; `message` if the event has none.
    pub event: Cow<'static, str>,
    /// The `data` fields, joined by line feeds.
    pub data: String,
    /// The value of the last `id` field of the stream, up to and including this event. Shared by
    /// events, so that a long ID is not copied into each of them.
    pub id: Option<Arc<str>>,
}

/// Why a stream cannot be decoded further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// An event or a line is longer than the decoder's maximum.
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The maximum size that was given to [`SseDecoder::new`], in bytes.
        limit: usize,
    },
    /// A line is not valid UTF-8.
    #[error("the event stream is not valid UTF-8")]
    InvalidUtf8,
}

/// Decodes a stream of server-sent events from chunks of bytes.
///
/// Lines may end with LF, CRLF or CR; a byte order mark at the start is skipped; comments and
/// unknown fields are ignored. As the [standard] requires, the decoder keeps what a client needs to
/// resume a broken stream: the [last event ID](Self::last_event_id) and the [reconnection
/// time](Self::retry).
///
/// [standard]: https://html.spec.whatwg.org/multipage/server-sent-events.html
///
/// ```
/// use pillion_sse::SseDecoder;
/// let mut decoder = SseDecoder::new(1024);
/// decoder.feed(b"data: {\"a\":\ndata: 1}\n")?;
/// assert!(decoder.next_event().is_none());
/// decoder.feed(b"\n")?;
/// assert_eq!(decoder.next_event().unwrap().data, "{\"a\":\n1}");
/// # Ok::<(), pillion_sse::SseError>(())
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    max_event_bytes: usize,
    /// The current line, without its line break.
    line: Vec<u8>,
    /// Whether the last line ended with a CR: an LF that follows is part of the same line break.
    is_after_cr: bool,
    /// Whether the next line is the first one, which may start with a byte order mark.
    is_at_start: bool,
    /// The `event` field of the current event; `None` means `message`.
    event: Option<String>,
    data: String,
    /// Whether the current event has a `data` field, which may be empty.
    has_data: bool,
    /// The last `id` field, including that of an event that is not complete.
    id: Option<Arc<str>>,
    /// The `id` field as of the last complete event.
    last_event_id: Option<Arc<str>>,
    retry: Option<Duration>,
    complete_events: VecDeque<SseEvent>,
}

impl SseDecoder {
    /// Creates a decoder that rejects events and lines larger than `max_event_bytes`.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            is_after_cr: false,
            is_at_start: true,
            event: None,
            data: String::new(),
            has_data: false,
            id: None,
            last_event_id: None,
            retry: None,
            complete_events: VecDeque::new(),
        }
    }

    /// Decodes the next bytes of the stream; [`next_event`](Self::next_event) returns the completed
    /// events.
    ///
    /// # Errors
    /// An event or a line is too large, or a line is not UTF-8. The decoder cannot decode any
    /// further bytes, but still returns the events that were completed before the error.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.is_after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let line_end = memchr::memchr2(b'\n', b'\r', bytes);
            let (part, rest) = bytes.split_at(line_end.unwrap_or(bytes.len()));
            let event_len = self.event.as_ref().map_or(0, String::len);
            let size = self.line.len() + part.len() + self.data.len() + event_len;
            if size > self.max_event_bytes {
                return Err(SseError::EventTooLarge {
                    limit: self.max_event_bytes,
                });
            }
            let Some(terminator) = rest.first() else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.is_after_cr = *terminator == b'\r';
            bytes = &rest[1..];
            if self.line.is_empty() {
                self.end_line(part)?;
            } else {
                self.line.extend_from_slice(part);
                let line = std::mem::take(&mut self.line);
                self.end_line(&line)?;
                // The line's buffer is reused, unless it has grown large.
                if line.capacity() <= 64 * 1024 {
                    self.line = line;
                    self.line.clear();
                }
            }
        }
        Ok(())
    }

    /// Returns the next complete event, if any.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.complete_events.pop_front()
    }

    /// Returns the value of `Last-Event-ID` for resuming the stream: the last `id` field that a
    /// blank line follows. `None` if the stream has no such field, or if the field is empty.
    ///
    /// - The ID of an event without data (a priming event) counts.
    /// - The ID of an event that [`next_event`](Self::next_event) has not returned yet counts.
    /// - The ID of an incomplete event does not count, so that the server sends that event again.
    ///
    /// ```
    /// use pillion_sse::SseDecoder;
    /// let mut decoder = SseDecoder::new(1024);
    /// decoder.feed(b"id: 1\ndata:\n\nid: 2\ndata: cut he")?;
    /// assert_eq!(decoder.last_event_id(), Some("1"));
    /// # Ok::<(), pillion_sse::SseError>(())
    /// ```
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns the reconnection time that the server requests in the last valid `retry` field. The
    /// server may request an arbitrarily long time, so the caller must limit this time.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Prepares the decoder for the continuation of a broken stream: discards the incomplete event,
    /// which the server sends again.
    pub fn resume(&mut self) {
        self.line.clear();
        self.event = None;
        self.data.clear();
        self.has_data = false;
        self.id = self.last_event_id.clone();
        self.is_after_cr = false;
        self.is_at_start = true;
    }

    /// Ends a stream that was not cut off. The standard drops an event without a final blank line,
    /// but some servers omit that line at the end of a stream. The event is therefore returned, but
    /// does not count for [`last_event_id`](Self::last_event_id), because it may be incomplete.
    ///
    /// # Errors
    /// [`SseError::InvalidUtf8`] if the last line is not UTF-8.
    pub fn finish(&mut self) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line)?;
        }
        self.finish_event();
        Ok(())
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), SseError> {
        let mut line = std::str::from_utf8(line).map_err(|_| SseError::InvalidUtf8)?;
        if std::mem::take(&mut self.is_at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            self.last_event_id.clone_from(&self.id);
            self.finish_event();
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line.as_bytes()) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, ""),
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "event" => {
                let is_named = !matches!(value, "" | "message");
                self.event = is_named.then(|| value.to_owned());
            }
            "id" if !value.contains('\0') => self.id = Some(value.into()),
            "retry" => self.retry = parse_milliseconds(value).or(self.retry),
            // Comments are ignored, too: a comment starts with a colon, so its field name is empty.
            _ => {}
        }
        Ok(())
    }

    fn finish_event(&mut self) {
        let event = self.event.take();
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            self.complete_events.push_back(SseEvent {
                event: event.map_or(Cow::Borrowed("message"), Cow::Owned),
                data,
                id: self.id.clone(),
            });
        }
    }
}

/// Parses ASCII digits; a number that is too large becomes the maximum.
fn parse_milliseconds(value: &str) -> Option<Duration> {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Duration::from_millis(value.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
