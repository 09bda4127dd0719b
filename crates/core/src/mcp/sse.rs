//! A reader of server-sent events whose every limit holds while it reads.
//!
//! It takes bytes as they arrive, in time linear to their number, and never holds more
//! than one event plus what it has just been given. (ADR 0001 says why it is ours.)

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// One event of a stream, as the WHATWG HTML standard defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; `message` when there was none.
    pub event: Cow<'static, str>,
    /// The `data` fields, joined by line feeds.
    pub data: String,
    /// The last `id` field so far in the stream. Events share it: a stream that names a
    /// long one once must not have it copied into each of its events.
    pub id: Option<Arc<str>>,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// One event, or one line, is longer than allowed.
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A line is not UTF-8.
    #[error("the event stream is not valid UTF-8")]
    InvalidUtf8,
}

/// Decodes a stream of server-sent events from chunks of bytes.
///
/// Lines may end with LF, CRLF or CR; a byte order mark at the start is skipped; comments
/// and unknown fields are ignored. What a client needs to take up a broken stream again,
/// the [last event id](Self::last_event_id) and the [reconnection time](Self::retry), is
/// kept here, as the [standard] says.
///
/// [standard]: https://html.spec.whatwg.org/multipage/server-sent-events.html
///
/// ```
/// use pillion_core::mcp::SseDecoder;
/// let mut decoder = SseDecoder::new(1024);
/// decoder.feed(b"data: {\"a\":\ndata: 1}\n")?;
/// assert!(decoder.next_event().is_none());
/// decoder.feed(b"\n")?;
/// assert_eq!(decoder.next_event().unwrap().data, "{\"a\":\n1}");
/// # Ok::<(), pillion_core::mcp::SseError>(())
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    max_event_bytes: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// A CR ended the last line; an LF right after it belongs to it.
    after_cr: bool,
    /// The first line may start with a byte order mark.
    at_start: bool,
    /// None for `message`.
    event: Option<String>,
    data: String,
    /// Whether there was a `data` field: an event may have empty data.
    has_data: bool,
    /// The last `id` line; an event that is cut before its blank line has one, too.
    id: Option<Arc<str>>,
    /// The `id` as of the last blank line.
    last_event_id: Option<Arc<str>>,
    retry: Option<Duration>,
    ready: VecDeque<SseEvent>,
}

impl SseDecoder {
    /// A decoder that refuses an event, or a line, of more than `max_event_bytes`.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: None,
            data: String::new(),
            has_data: false,
            id: None,
            last_event_id: None,
            retry: None,
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes of the stream; [`next_event`](Self::next_event) gives the
    /// events that they completed.
    ///
    /// # Errors
    /// [`SseError`]; the decoder is then of no further use, but events completed before
    /// the fault can still be taken.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            let named = self.event.as_ref().map_or(0, String::len);
            let size = self.line.len() + part.len() + self.data.len() + named;
            if size > self.max_event_bytes {
                return Err(SseError::EventTooLarge {
                    limit: self.max_event_bytes,
                });
            }
            let Some(terminator) = rest.first() else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_cr = *terminator == b'\r';
            bytes = &rest[1..];
            if self.line.is_empty() {
                self.end_line(part)?;
            } else {
                self.line.extend_from_slice(part);
                let line = std::mem::take(&mut self.line);
                self.end_line(&line)?;
                // The line's buffer is used again, unless it has grown large.
                if line.capacity() <= 64 * 1024 {
                    self.line = line;
                    self.line.clear();
                }
            }
        }
        Ok(())
    }

    /// The next complete event, if there is one.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// The id to send as `Last-Event-ID` when the stream is taken up again: the last `id`
    /// field that a blank line has confirmed, with or without data (a priming event has
    /// none). An event that was cut does not count, so that the server sends it again;
    /// events that [`next_event`](Self::next_event) has still to give do. None when there
    /// was no `id`, or the server took it back with an empty one.
    ///
    /// ```
    /// use pillion_core::mcp::SseDecoder;
    /// let mut decoder = SseDecoder::new(1024);
    /// decoder.feed(b"id: 1\ndata:\n\nid: 2\ndata: cut he")?;
    /// assert_eq!(decoder.last_event_id(), Some("1"));
    /// # Ok::<(), pillion_core::mcp::SseError>(())
    /// ```
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long the server wants its client to wait before it connects again: the last
    /// valid `retry` field, which is in milliseconds. As large as the server likes: the
    /// caller bounds it.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Gets ready for the continuation of a stream that broke off: what had not been
    /// completed is forgotten, for the server sends it again.
    pub fn resume(&mut self) {
        self.line.clear();
        self.event = None;
        self.data.clear();
        self.has_data = false;
        self.id = self.last_event_id.clone();
        self.after_cr = false;
        self.at_start = true;
    }

    /// Says that the stream has ended properly. The standard drops an event that no blank
    /// line ended; some servers leave that line out at the end, so it counts here, though
    /// not for [`last_event_id`](Self::last_event_id): it may have been cut.
    ///
    /// # Errors
    /// [`SseError::InvalidUtf8`] in the last line.
    pub fn finish(&mut self) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line)?;
        }
        self.give_event();
        Ok(())
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), SseError> {
        let mut line = std::str::from_utf8(line).map_err(|_| SseError::InvalidUtf8)?;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch();
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
                let named = !matches!(value, "" | "message");
                self.event = named.then(|| value.to_owned());
            }
            "id" if !value.contains('\0') => self.id = Some(value.into()),
            "retry" => self.retry = milliseconds(value).or(self.retry),
            // Comments start with a colon, so their field is empty.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self) {
        self.last_event_id.clone_from(&self.id);
        self.give_event();
    }

    fn give_event(&mut self) {
        let event = self.event.take();
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(SseEvent {
                event: event.map_or(Cow::Borrowed("message"), Cow::Owned),
                data,
                id: self.id.clone(),
            });
        }
    }
}

/// Nothing but ASCII digits; a number too large for its type is as long as it can be.
fn milliseconds(value: &str) -> Option<Duration> {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Duration::from_millis(value.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
