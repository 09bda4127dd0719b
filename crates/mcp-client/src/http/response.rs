use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::body_form::{BodyForm, ContentTypeWarning};
use crate::message::IncomingMessage;
use crate::{Limits, McpErrorKind};
use pillion_sse::{SseDecoder, SseEvent};

const EVENT_STREAM: &str = "text/event-stream";

/// The body of a successful HTTP response.
pub(crate) enum ResponseBody {
    /// No content. The server sends the JSON-RPC response on another stream, or sends no response.
    Empty,
    /// JSON-RPC messages, from a body that was completely read.
    Messages(Vec<IncomingMessage>),
    /// An event stream that was not read yet.
    Stream(Box<ResponseReader>),
}

/// An event stream, as the body of a response. `first_bytes` contains the bytes that were already
/// read.
pub(crate) struct EventBody {
    response: reqwest::Response,
    first_bytes: Vec<u8>,
}

impl EventBody {
    fn new(response: reqwest::Response, first_bytes: Vec<u8>) -> Self {
        Self {
            response,
            first_bytes,
        }
    }
}

/// Reads as much of a response's body as is necessary to determine its kind, whatever its content
/// type.
pub(super) async fn read_body(
    mut response: reqwest::Response,
    limits: &Limits,
    warning: &Arc<ContentTypeWarning>,
) -> Result<ResponseBody, McpErrorKind> {
    check_encoding(&mut response).await?;
    if content_type(&response) == EVENT_STREAM {
        let reader = ResponseReader::with_sniffer(response, *limits, warning);
        return Ok(ResponseBody::Stream(Box::new(reader)));
    }
    let is_json = is_json(&content_type(&response));
    let is_accepted = response.status() == StatusCode::ACCEPTED;
    let limit = limits.max_response_bytes;
    let mut body = new_body_buffer(&response, limit)?;
    let mut form = None;
    while read_chunk(&mut response, &mut body, limit).await? {
        form = form.or_else(|| BodyForm::detect(&body));
        if form == Some(BodyForm::EventStream) {
            warning.log_once(&content_type(&response), BodyForm::EventStream);
            let reader = ResponseReader::new(EventBody::new(response, body), *limits);
            return Ok(ResponseBody::Stream(Box::new(reader)));
        }
    }
    let body_text = std::str::from_utf8(&body).map_err(|_| McpErrorKind::InvalidUtf8)?;
    let text = body_text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(ResponseBody::Empty);
    }
    if is_json || text.starts_with(['{', '[']) {
        if !is_json {
            warning.log_once(&content_type(&response), BodyForm::Json);
        }
        let messages = IncomingMessage::parse(text).map_err(McpErrorKind::InvalidMessage)?;
        return Ok(ResponseBody::Messages(messages));
    }
    if is_accepted {
        // The body is ignored, because it is not a JSON-RPC message, but a word such as `Accepted`.
        return Ok(ResponseBody::Empty);
    }
    let content_type = content_type(&response).into_owned();
    Err(McpErrorKind::ContentType { content_type })
}

/// Returns the body of a successful response to a GET request if it is an event stream, whatever
/// its content type.
pub(super) async fn read_event_body(
    mut response: reqwest::Response,
    warning: &ContentTypeWarning,
) -> Result<EventBody, McpErrorKind> {
    /// Maximum time to wait for the first event of a stream whose content type is wrong.
    const DETECTION_TIMEOUT: Duration = Duration::from_secs(2);
    const MAX_DETECTION_BYTES: usize = 64 * 1024;
    check_encoding(&mut response).await?;
    let mut first_bytes = Vec::new();
    let content_type = content_type(&response).into_owned();
    if content_type == EVENT_STREAM {
        return Ok(EventBody::new(response, first_bytes));
    }
    let detection = async {
        while read_chunk(&mut response, &mut first_bytes, MAX_DETECTION_BYTES).await? {
            if let Some(form) = BodyForm::detect(&first_bytes) {
                return Ok(form);
            }
        }
        Ok(BodyForm::Other)
    };
    let form = match pillion_deadline::timeout(DETECTION_TIMEOUT, detection).await {
        Ok(Err(McpErrorKind::TooLarge { .. })) | Err(_) => BodyForm::Other,
        Ok(form) => form?,
    };
    if form != BodyForm::EventStream {
        return Err(McpErrorKind::ContentType { content_type });
    }
    warning.log_once(&content_type, form);
    Ok(EventBody::new(response, first_bytes))
}

/// Rejects a compressed body, because Pillion requests none. A response without a body is not
/// rejected.
async fn check_encoding(response: &mut reqwest::Response) -> Result<(), McpErrorKind> {
    let Some(encoding) = content_encoding(response) else {
        return Ok(());
    };
    match response.chunk().await.map_err(broken_error)? {
        Some(_) => Err(McpErrorKind::ContentEncoding { encoding }),
        None => Ok(()),
    }
}

/// Returns the content encoding of a compressed body, truncated to 100 characters; `None` for an
/// uncompressed body.
pub(super) fn content_encoding(response: &reqwest::Response) -> Option<String> {
    let value = response.headers().get(CONTENT_ENCODING)?;
    let text = String::from_utf8_lossy(value.as_bytes());
    let encoding = text.trim();
    let is_uncompressed = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
    (!is_uncompressed).then(|| encoding.chars().take(100).collect())
}

fn is_json(content_type: &str) -> bool {
    content_type == "application/json" || content_type.ends_with("+json")
}

/// Returns the content type without its parameters, in lower case, truncated to 100 bytes.
fn content_type(response: &reqwest::Response) -> Cow<'_, str> {
    let value = response.headers().get(CONTENT_TYPE);
    let text = value.map_or("", |value| value.to_str().unwrap_or_default());
    let essence = text.split(';').next().unwrap_or_default().trim();
    // Header values are ASCII, so any index is a character boundary.
    let short_essence = essence.get(..100).unwrap_or(essence);
    if short_essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(short_essence.to_ascii_lowercase());
    }
    Cow::Borrowed(short_essence)
}

/// Returns an empty buffer for a body of at most `limit` bytes.
fn new_body_buffer(response: &reqwest::Response, limit: usize) -> Result<Vec<u8>, McpErrorKind> {
    let length = usize::try_from(response.content_length().unwrap_or(0)).unwrap_or(usize::MAX);
    if length > limit {
        return Err(McpErrorKind::TooLarge { limit });
    }
    Ok(Vec::with_capacity(length))
}

/// Reads the next part of a body of at most `limit` bytes. Returns `false` at the end of the body.
async fn read_chunk(
    response: &mut reqwest::Response,
    body: &mut Vec<u8>,
    limit: usize,
) -> Result<bool, McpErrorKind> {
    let Some(chunk) = response.chunk().await.map_err(broken_error)? else {
        return Ok(false);
    };
    if body.len() + chunk.len() > limit {
        return Err(McpErrorKind::TooLarge { limit });
    }
    body.extend_from_slice(&chunk);
    Ok(true)
}

fn broken_error(error: reqwest::Error) -> McpErrorKind {
    McpErrorKind::ConnectionBroken(error.without_url().into())
}

/// Determines whether a body with the content type of an event stream is JSON.
struct JsonSniffer {
    is_json: bool,
    warning: Arc<ContentTypeWarning>,
}

/// Reads the events of a response one by one, within all limits.
pub(crate) struct ResponseReader {
    response: Option<reqwest::Response>,
    decoder: SseDecoder,
    /// Bytes that were read, but not decoded yet. A body that is JSON is collected here to its end.
    first_bytes: Vec<u8>,
    /// Detects a body that is JSON although its content type is that of an event stream; `None`
    /// once the body is known to be an event stream.
    sniffer: Option<JsonSniffer>,
    /// The message of a body that is JSON, as an event.
    json_event: Option<SseEvent>,
    max_event_bytes: usize,
    /// Number of bytes that were read from the stream.
    read_bytes: usize,
    /// Number of events that the reader has returned.
    event_count: usize,
    /// Number of bytes read after the JSON-RPC response.
    skipped_bytes: usize,
    /// Limits for the whole stream; `None` for a long-lived stream, where only the size of single
    /// events is limited.
    total_limits: Option<Limits>,
}

impl ResponseReader {
    /// Creates a reader for the response to one request, for a body that may be JSON.
    fn with_sniffer(
        response: reqwest::Response,
        limits: Limits,
        warning: &Arc<ContentTypeWarning>,
    ) -> Self {
        Self {
            sniffer: Some(JsonSniffer {
                is_json: false,
                warning: Arc::clone(warning),
            }),
            ..Self::new(EventBody::new(response, Vec::new()), limits)
        }
    }

    /// Creates a reader for the response to one request, for a body that is an event stream.
    fn new(body: EventBody, limits: Limits) -> Self {
        Self {
            total_limits: Some(limits),
            ..Self::for_long_lived_stream(body, &limits)
        }
    }

    /// Creates a reader for a stream that lasts as long as the session.
    pub(crate) fn for_long_lived_stream(body: EventBody, limits: &Limits) -> Self {
        let body_bytes = body.first_bytes.len();
        Self {
            response: Some(body.response),
            decoder: SseDecoder::new(limits.max_event_bytes),
            first_bytes: body.first_bytes,
            sniffer: None,
            json_event: None,
            max_event_bytes: limits.max_event_bytes,
            read_bytes: body_bytes,
            event_count: 0,
            skipped_bytes: 0,
            total_limits: None,
        }
    }

    /// Removes the limits for the whole stream. The limits for single events still apply.
    pub(crate) fn remove_total_limits(&mut self) {
        self.total_limits = None;
    }

    /// Continues the stream with another response. Counters are not reset.
    pub(crate) fn resume(&mut self, body: EventBody) {
        self.decoder.resume();
        self.sniffer = None;
        self.first_bytes = body.first_bytes;
        self.response = Some(body.response);
    }

    /// Returns the last `id` of the stream, from which it can be resumed.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    /// Returns the reconnection time that the server requested (`retry`).
    pub(crate) fn retry_interval(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    /// Returns the next event; `None` after a regular end of the stream.
    pub(crate) async fn next_event(&mut self) -> Result<Option<SseEvent>, McpErrorKind> {
        loop {
            if self.sniffer.is_none() && !self.first_bytes.is_empty() {
                let first_bytes = std::mem::take(&mut self.first_bytes);
                self.decoder.feed(&first_bytes)?;
            }
            if let Some(event) = self.decoder.next_event().or_else(|| self.json_event.take()) {
                self.event_count += 1;
                return match self.total_limits {
                    Some(limits) if self.event_count > limits.max_events => {
                        let limit = limits.max_events;
                        Err(McpErrorKind::TooManyEvents { limit })
                    }
                    _ => Ok(Some(event)),
                };
            }
            let Some(response) = &mut self.response else {
                return Ok(None);
            };
            match response.chunk().await.map_err(broken_error)? {
                Some(chunk) => {
                    self.read_bytes = self.read_bytes.saturating_add(chunk.len());
                    if let Some(limits) = self.total_limits
                        && self.read_bytes > limits.max_response_bytes
                    {
                        let limit = limits.max_response_bytes;
                        return Err(McpErrorKind::TooLarge { limit });
                    }
                    self.feed(&chunk)?;
                }
                None => {
                    self.response = None;
                    self.finish_body()?;
                }
            }
        }
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), McpErrorKind> {
        let Some(sniffer) = &mut self.sniffer else {
            return Ok(self.decoder.feed(chunk)?);
        };
        // The form is first detected in the chunk itself, because the first chunk usually
        // determines the form, and then need not be copied.
        let form = self
            .first_bytes
            .is_empty()
            .then(|| BodyForm::detect(chunk))
            .flatten();
        if matches!(form, Some(BodyForm::EventStream | BodyForm::Other)) {
            self.sniffer = None;
            return Ok(self.decoder.feed(chunk)?);
        }
        if self.first_bytes.len() + chunk.len() > self.max_event_bytes {
            let limit = self.max_event_bytes;
            return Err(McpErrorKind::TooLarge { limit });
        }
        self.first_bytes.extend_from_slice(chunk);
        if sniffer.is_json {
            return Ok(());
        }
        match BodyForm::detect(&self.first_bytes) {
            Some(BodyForm::Json) => {
                sniffer.is_json = true;
                sniffer.warning.log_once(EVENT_STREAM, BodyForm::Json);
            }
            // The next iteration of the loop decodes the bytes in `first_bytes`.
            Some(BodyForm::EventStream | BodyForm::Other) => self.sniffer = None,
            None => {}
        }
        Ok(())
    }

    fn finish_body(&mut self) -> Result<(), McpErrorKind> {
        let first_bytes = std::mem::take(&mut self.first_bytes);
        if self.sniffer.take().is_some_and(|sniffer| sniffer.is_json) {
            let data = String::from_utf8(first_bytes).map_err(|_| McpErrorKind::InvalidUtf8)?;
            self.json_event = Some(SseEvent {
                event: "message".into(),
                data: data.trim_start_matches('\u{feff}').trim().to_owned(),
                id: None,
            });
            return Ok(());
        }
        self.decoder.feed(&first_bytes)?;
        self.decoder.finish()?;
        Ok(())
    }

    /// Reads the rest of a stream after the response and discards it. Reading to the end frees the
    /// connection; stopping earlier closes it. Can be called again after its future was dropped.
    pub(super) async fn skip_rest(&mut self) {
        const MAX_SKIPPED_BYTES: usize = 64 * 1024;
        let Some(response) = &mut self.response else {
            return;
        };
        while let Ok(Some(chunk)) = response.chunk().await {
            self.skipped_bytes += chunk.len();
            if self.skipped_bytes > MAX_SKIPPED_BYTES {
                break;
            }
        }
        self.response = None;
    }
}

/// Returns the messages in an event; none if the event is not JSON-RPC.
pub(crate) fn parse_event(event: &SseEvent) -> Vec<IncomingMessage> {
    if event.data.is_empty() {
        return Vec::new();
    }
    IncomingMessage::parse(&event.data).unwrap_or_else(|error| {
        tracing::debug!(%error, "Skipped an event that is not a JSON-RPC message");
        Vec::new()
    })
}
