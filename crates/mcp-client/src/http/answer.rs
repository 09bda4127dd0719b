use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::jsonrpc::Incoming;
use crate::{Limits, McpErrorKind};
use pillion_sse::{SseDecoder, SseEvent};

const EVENT_STREAM: &str = "text/event-stream";

/// The body of a successful response.
pub(crate) enum Answer {
    /// No content: the server sends the response elsewhere, or none.
    Empty,
    /// JSON-RPC messages, completely read.
    Messages(Vec<Incoming>),
    /// An event stream, not read yet.
    Stream(Box<AnswerReader>),
}

/// Reads as much of a response's body as is necessary to determine its kind.
///
/// Some servers send JSON as `text/plain`, or without a content type: a body that starts like a
/// JSON-RPC message counts as one, whatever its content type.
pub(crate) async fn read_answer(
    mut response: reqwest::Response,
    limits: &Limits,
) -> Result<Answer, McpErrorKind> {
    let content_type = content_type(&response);
    if content_type == EVENT_STREAM {
        let reader = AnswerReader::new(response, *limits);
        return Ok(Answer::Stream(Box::new(reader)));
    }
    let is_json = content_type == "application/json" || content_type.ends_with("+json");
    let content_type = (!is_json).then(|| content_type.into_owned());
    let accepted = response.status() == StatusCode::ACCEPTED;
    let body = read_body(&mut response, limits.max_response_bytes).await?;
    let text = std::str::from_utf8(&body).map_err(|_| McpErrorKind::InvalidUtf8)?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(Answer::Empty);
    }
    if is_json || text.starts_with(['{', '[']) {
        return Incoming::parse(text)
            .map(Answer::Messages)
            .map_err(McpErrorKind::InvalidMessage);
    }
    if accepted {
        // The body is a word such as `Accepted`.
        return Ok(Answer::Empty);
    }
    let content_type = content_type.unwrap_or_default();
    Err(McpErrorKind::ContentType { content_type })
}

pub(crate) fn is_event_stream(response: &reqwest::Response) -> bool {
    content_type(response) == EVENT_STREAM
}

/// Returns the content type without its parameters, in lower case, cut to 100 bytes.
pub(crate) fn content_type(response: &reqwest::Response) -> Cow<'_, str> {
    let value = response.headers().get(CONTENT_TYPE);
    let text = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    // Header values are ASCII, so any index is a character boundary.
    let shortened = essence.get(..100).unwrap_or(essence);
    if shortened.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(shortened.to_ascii_lowercase());
    }
    Cow::Borrowed(shortened)
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read_body(
    response: &mut reqwest::Response,
    limit: usize,
) -> Result<Vec<u8>, McpErrorKind> {
    let too_large = McpErrorKind::TooLarge { limit };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).is_ok_and(|announced| announced > limit) {
        return Err(too_large);
    }
    let mut body = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > limit {
            return Err(too_large);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn broken(error: reqwest::Error) -> McpErrorKind {
    McpErrorKind::Broken(error.without_url().into())
}

/// Reads the events of a response one by one, within all limits.
pub(crate) struct AnswerReader {
    response: Option<reqwest::Response>,
    decoder: SseDecoder,
    bytes: usize,
    events: usize,
    /// Number of bytes read after the response.
    skipped: usize,
    /// Limits for the whole stream; `None` for a long-lived stream, where only single events are
    /// limited.
    totals: Option<Limits>,
}

impl AnswerReader {
    /// Creates a reader for the response to one request.
    fn new(response: reqwest::Response, limits: Limits) -> Self {
        Self {
            totals: Some(limits),
            ..Self::endless(response, &limits)
        }
    }

    /// Creates a reader for a stream that lasts as long as the session.
    pub(crate) fn endless(response: reqwest::Response, limits: &Limits) -> Self {
        Self {
            response: Some(response),
            decoder: SseDecoder::new(limits.max_event_bytes),
            bytes: 0,
            events: 0,
            skipped: 0,
            totals: None,
        }
    }

    /// Removes the limits for the whole stream.
    pub(crate) fn without_totals(&mut self) {
        self.totals = None;
    }

    /// Continues the stream with another response. Counters are not reset.
    pub(crate) fn resume(&mut self, response: reqwest::Response) {
        self.decoder.resume();
        self.response = Some(response);
    }

    /// Returns the last `id` of the stream, from which it can be resumed.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    /// Returns the reconnection time that the server requested (`retry`).
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    /// Returns the next event; `None` after a regular end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, McpErrorKind> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                self.events += 1;
                return match self.totals {
                    Some(limits) if self.events > limits.max_events => {
                        let limit = limits.max_events;
                        Err(McpErrorKind::TooManyEvents { limit })
                    }
                    _ => Ok(Some(event)),
                };
            }
            let Some(response) = &mut self.response else {
                return Ok(None);
            };
            match response.chunk().await.map_err(broken)? {
                Some(chunk) => {
                    self.bytes = self.bytes.saturating_add(chunk.len());
                    if let Some(limits) = self.totals
                        && self.bytes > limits.max_response_bytes
                    {
                        let limit = limits.max_response_bytes;
                        return Err(McpErrorKind::TooLarge { limit });
                    }
                    self.decoder.feed(&chunk)?;
                }
                None => {
                    self.response = None;
                    self.decoder.finish()?;
                }
            }
        }
    }

    /// Reads the rest of a stream after the response and discards it. Reading to the end frees the
    /// connection; stopping earlier closes it. Can be called again after its future was dropped.
    pub(super) async fn skip_rest(&mut self) {
        const MAX_BYTES: usize = 64 * 1024;
        let Some(response) = &mut self.response else {
            return;
        };
        while let Ok(Some(chunk)) = response.chunk().await {
            self.skipped += chunk.len();
            if self.skipped > MAX_BYTES {
                break;
            }
        }
        self.response = None;
    }
}

/// Returns the messages in an event; none if the event is not JSON-RPC.
pub(crate) fn messages_of(event: &SseEvent) -> VecDeque<Incoming> {
    if event.data.is_empty() {
        return VecDeque::new();
    }
    match Incoming::parse(&event.data) {
        Ok(messages) => messages.into(),
        Err(error) => {
            tracing::debug!(%error, "Skipped an event that is not a JSON-RPC message");
            VecDeque::new()
        }
    }
}
